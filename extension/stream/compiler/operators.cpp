#include "stream/compiler/text.hpp"

namespace baton::stream {

void Script::add_view(const std::string& name, const std::string& text) {
    parts_ += (parts_.empty() ? "with " : ",\n") + name + " as not materialized (" + text + ")";
}

void Script::add_table(const std::string& name, const std::string& text) {
    parts_ += (parts_.empty() ? "with " : ",\n") + name + " as materialized (" + text + ")";
}

std::string Script::with_clause() const {
    return parts_;
}

Operator& Compiler::make(std::string label, std::vector<const Operator*> inputs) {
    const std::string number = std::to_string(operators_.size() + 1);
    Operator& op = operators_.emplace_back();
    op.label = std::move(label);
    op.inputs = std::move(inputs);
    op.now = "now_" + number;
    op.change = "change_" + number;
    return op;
}

std::string Compiler::name(const char* role, const Operator& of) {
    return std::string(role) + of.now.substr(of.now.find('_'));
}

std::string Compiler::before(const Operator& op) {
    std::string view = name("before", op);
    if (std::find(known_befores_.begin(), known_befores_.end(), view) != known_befores_.end()) return view;
    const std::string columns = column_list(op.columns);
    std::string rows = "select " + columns + ", 1::bigint as baton_weight from " + op.now;
    if (!op.is_constant()) rows += " union all select " + columns + ", -baton_weight from " + op.change;
    script_.add_view(view, rows);
    known_befores_.push_back(view);
    return view;
}

std::string Compiler::stored(const Operator& root, const Target& target) {
    std::vector<std::string> renamed;
    for (std::size_t i = 0; i < root.columns.size(); ++i)
        renamed.push_back(quoted(target.columns[i].c_str()) + " as " + root.columns[i].name);
    std::string view = name("stored", root);
    script_.add_view(view, "select " + join(renamed, ", ") + " from :table");
    return view;
}

namespace {

void describe_into(std::string& text, const Operator& op, int depth) {
    text.append(static_cast<std::size_t>(depth) * 2, ' ');
    text += op.label + (op.is_constant() ? " (never changes)" : "") + "\n";
    for (const auto* const input : op.inputs) describe_into(text, *input, depth + 1);
}

}  // namespace

std::string describe(const Operator& root) {
    std::string text;
    describe_into(text, root, 0);
    text.pop_back();
    return text;
}

}  // namespace baton::stream
