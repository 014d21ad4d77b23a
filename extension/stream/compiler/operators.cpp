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

// Only rows that look like one of the change need be counted. Comparing hashes chooses them: whichever rows
// it takes in are counted right, and the others are as they were.
std::string Compiler::past(const Operator& op) {
    if (op.is_constant()) return op.now;
    std::string view = name("past", op);
    if (std::find(known_befores_.begin(), known_befores_.end(), view) != known_befores_.end()) return view;
    const std::string columns = column_list(op.columns, "r");
    const std::string hash = "baton_internal.row_hash(row(" + columns + "))";
    const std::string hashes = name("hashes", op);
    script_.add_table(hashes, "select distinct " + hash + " as hash from " + op.change + " r");
    script_.add_table(
        view, "select " + columns + " from " + op.now + " r where not exists (select from " + hashes +
                  " h where h.hash = " + hash + ") union all " +
                  spread(op.columns, "select " + columns + ", 1::bigint as baton_weight from " + op.now +
                                         " r where exists (select from " + hashes +
                                         " h where h.hash = " + hash + ") union all select " + columns +
                                         ", -r.baton_weight from " + op.change + " r"));
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
