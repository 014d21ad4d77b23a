// docs/sql-reference.md is what the catalog says about schema baton, in both install forms.

#include <map>
#include <regex>
#include <sstream>

#include "e2e/reference_page.hpp"
#include "support/cluster.hpp"

namespace fs = std::filesystem;
using namespace baton;
using namespace baton::test;

namespace {

// A chapter of the page, and the files of sql/ whose objects stand there, by the beginning of their names. So
// a new file finds its place by its name.
struct Chapter {
    const char* title;
    std::vector<const char*> files;
};

const std::vector<Chapter> chapters{
    {"Outboxes", {"outbox_", "publish"}},
    {"Consumer groups", {"group_", "poll", "settle", "seek", "doorbell"}},
    {"Dead letters", {"dead_letters", "all_dead_letters"}},
    {"Inboxes", {"inbox_"}},
    {"Pipelines", {"pipelines", "relay_troubles", "relay_pipelines"}},
    {"Tables that are there already", {"adopt_"}},
    {"Stream tables", {"stream_", "capture_"}},
    {"Looking", {"observability", "event_"}},
    {"Upkeep and settings", {"scheduler", "maintenance", "settings", "roles", "schema", "uninstall"}},
    {"Ids", {"ids"}},
};

struct Entry {
    std::string name;
    std::string kind;       // function, procedure, view, table
    std::string signature;  // of a routine: as the server writes it; of a relation: a table of its columns
    std::string comment;
    std::string callers;
    bool operator==(const Entry&) const = default;
};

using Entries = std::map<std::string, Entry>;  // by name and signature

constexpr const char* routines = R"sql(
    select p.proname, case p.prokind when 'p' then 'procedure' else 'function' end,
           'baton.' || p.proname || '(' || pg_get_function_arguments(p.oid) || ')' || coalesce(' returns ' || pg_get_function_result(p.oid), ''),
           obj_description(p.oid, 'pg_proc'),
           (select string_agg(substr(r, 7), ', ' order by n)
              from unnest('{baton_producer,baton_consumer,baton_relay,baton_operator,baton_viewer}'::text[]) with ordinality x (r, n)
             where has_function_privilege(r, p.oid, 'execute'))
      from pg_proc p where p.pronamespace = 'baton'::regnamespace)sql";

// $1 is the schema, $2 the names of relations, or null for all.
constexpr const char* relations = R"sql(
    select c.relname, case c.relkind when 'v' then 'view' else 'table' end,
           (select string_agg(format('| `%s` | %s | %s |', a.attname, format_type(a.atttypid, a.atttypmod),
                                     coalesce(col_description(c.oid, a.attnum), case when a.attnotnull then 'never null' end)), E'\n' order by a.attnum)
              from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
           obj_description(c.oid, 'pg_class'),
           (select string_agg(substr(r, 7), ', ' order by n)
              from unnest('{baton_producer,baton_consumer,baton_relay,baton_operator,baton_viewer}'::text[]) with ordinality x (r, n)
             where has_table_privilege(r, c.oid, 'select'))
      from pg_class c
     where c.relkind in ('r', 'p', 'v') and c.relnamespace = $1::regnamespace and ($2::text[] is null or c.relname = any ($2::text[])))sql";

void add(Entries& entries, const postgres::Result& rows) {
    for (int row = 0; row < rows.rows(); ++row)
        entries[rows.text(row, 0) + rows.text(row, 2)] = {
            rows.text(row, 0), rows.text(row, 1), rows.text(row, 2), rows.text(row, 3), rows.text(row, 4)};
}

// What each outbox and inbox brings along.
const std::vector<std::pair<std::string, std::string>> made{
    {"orders", "an outbox"},
    {"payments", "an inbox"},
    {"pending_payments", "`pending_<inbox>`"},
    {"dlq_payments", "`dlq_<inbox>`"},
    {"stats_payments", "`stats_<inbox>`"},
    {"next_payments", "`next_<inbox>`"},
    {"gaps_payments", "`gaps_<inbox>`"},
    {"stalled_payments", "`stalled_<inbox>`"},
    {"pending_urgent_critical", "`pending_<inbox>_<tier>`"},
};

constexpr const char* settings = R"sql(
    select string_agg(format('| `%s` | `%s` | %s | %s%s |', name, value, case kind when 'integer' then minimum || ' to ' || maximum else 'on, off' end,
                             description, case when stored_only then '; stored only' else '' end), E'\n' order by name)
      from baton.setting_defaults)sql";

constexpr const char* preface_of_settings = R"(
## Settings

`select baton.set_setting('outbox_retention_hours', '48')` stores a value for the database. The parameter `baton.<name>` of a session, a role or
a database goes before the stored value, unless *stored only* is said: what deletes, and when maintenance runs, is not for a session to decide.

| name | default | range | |
|---|---|---|---|
)";

struct Catalog {
    std::string settings;
    Entries all;
    std::map<std::string, Entry> made;  // by the name in `made`
};

Catalog ask(Form form) {
    Connection db(shared_cluster(form).fresh_database());
    db.exec(
        "select baton.create_outbox('orders'), baton.create_inbox('payments'), "
        "baton.create_inbox('urgent')");
    db.exec(
        "select baton.enable_inbox_ordering('payments', sequence_num_col => 'sequence_num'), "
        "baton.enable_inbox_priority('urgent')");
    Catalog catalog;
    catalog.settings = db.value(settings);
    add(catalog.all, db.query(routines));
    add(catalog.all, db.query(relations, {"baton", nullptr}));
    std::string names;
    for (const auto& [name, title] : made) names += (names.empty() ? "{" : ",") + name;
    Entries found;
    add(found, db.query(relations, {"public", names + "}"}));
    for (const auto& [key, entry] : found) catalog.made[entry.name] = entry;
    return catalog;
}

// Where the sources make each object of schema baton: its file, without folder and ending.
std::map<std::string, std::string> read_places() {
    std::map<std::string, std::string> places;
    const std::regex made_here(
        R"(create (?:or replace )?(?:function|procedure|view|table) baton\.([a-z_0-9]+))");
    for (const auto& file : fs::directory_iterator(fs::path(BATON_SOURCE) / "sql")) {
        if (file.path().extension() != ".sql") continue;
        const std::string text = read_text(file.path());
        for (std::sregex_iterator match(text.begin(), text.end(), made_here), end; match != end; ++match)
            places[(*match)[1].str()] = file.path().stem().string();
    }
    return places;
}

std::size_t chapter_of(const std::string& file) {
    for (std::size_t chapter = 0; chapter < chapters.size(); ++chapter)
        for (const char* beginning : chapters[chapter].files)
            if (file.starts_with(beginning)) return chapter;
    ADD_FAILURE() << "sql/" << file << ".sql has no chapter in " << __FILE__;
    return 0;
}

// One argument per line where the line would be long. Commas within brackets and quotes separate nothing.
std::string break_signature(const std::string& signature) {
    if (signature.size() <= 110) return signature;
    std::string broken;
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < signature.size(); ++i) {
        const char c = signature[i];
        if (c == '\'') quoted = !quoted;
        if (quoted) {
            broken += c;
            continue;
        }
        if (c == ')' && --depth == 0) broken += "\n";
        broken += c;
        if (c == '(' && ++depth == 1) broken += "\n    ";
        if (c == ',' && depth == 1) {
            broken += "\n   ";
        }
    }
    return broken;
}

void write_columns(std::ostream& out, const Entry& entry) {
    out << "| column | type | |\n|---|---|---|\n" << entry.signature << "\n";
}

void write_routine(std::ostream& out, const Entry& entry) {
    out << "```text\n" << break_signature(entry.signature) << "\n```\n";
}

constexpr const char* preface = R"(# SQL reference

Every function, procedure, table and view of schema `baton`, as the catalog describes them: this page is made from the sources, and
`e2e/reference_test` fails when they differ. The words of a chapter's own page say how things work together:
[outbox](outbox.md), [inbox](inbox.md), [relay](relay.md), [adoption](adoption.md), [stream tables](stream-tables.md). Settings are at the
[end](#settings), errors in [errors](errors.md).

*May call* and *may read* name the roles without their prefix `baton_`; the whole table is in [privileges](privileges.md). The owner of
baton may do everything. Arguments can be given by name: `baton.poll_outbox('billing', 'worker-1', batch_size => 10)`.
)";

std::string form_of(const std::string& key, const Entries& extension, const Entries& plain) {
    if (!plain.contains(key)) return " With the extension only.";
    if (!extension.contains(key)) return " In the plain form only.";
    return {};
}

std::string write_page(const Catalog& extension, const Catalog& plain) {
    Entries all = extension.all;
    all.insert(plain.all.begin(), plain.all.end());
    auto places = read_places();
    std::map<std::size_t, std::map<std::string, std::vector<std::string>>> keys;  // chapter, name
    for (const auto& [key, entry] : all) {
        EXPECT_TRUE(places.contains(entry.name)) << entry.name << " is made by no file of sql/";
        EXPECT_FALSE(entry.comment.empty()) << entry.name << " has no comment";
        keys[chapter_of(places[entry.name])][entry.name].push_back(key);
    }
    std::ostringstream out;
    out << preface;
    for (const auto& [chapter, names] : keys) {
        out << "\n## " << chapters[chapter].title << "\n";
        for (const auto& [name, same] : names) {
            out << "\n### " << name << "\n\n";
            for (const auto& key : same) {
                const Entry& entry = all.at(key);
                const bool relation = entry.kind == "table" || entry.kind == "view";
                if (relation)
                    write_columns(out, entry);
                else
                    write_routine(out, entry);
                out << "\n"
                    << (relation ? "A " + entry.kind + ": " : "") << entry.comment << "."
                    << form_of(key, extension.all, plain.all) << "\n\nMay "
                    << (relation ? "read: " : "call: ")
                    << (entry.callers.empty() ? "the owner alone" : entry.callers) << "\n"
                    << (key == same.back() ? "" : "\n");
            }
        }
    }
    out << "\n## Made with each outbox and inbox\n\nThese stand in the schema of the outbox or inbox.\n";
    for (const auto& [name, title] : made) {
        const Entry& entry = extension.made.at(name);
        out << "\n### " << title << "\n\n";
        write_columns(out, entry);
        out << "\n"
            << (entry.comment.empty() ? "" : entry.comment + ".\n\n")
            << "May read: " << (entry.callers.empty() ? "the owner alone" : entry.callers) << "\n";
    }
    out << preface_of_settings << extension.settings << "\n";
    return out.str();
}

}  // namespace

TEST(SqlReference, the_page_says_what_the_catalog_says) {
    const Catalog extension = ask(Form::extension);
    const Catalog plain = ask(Form::plain);
    for (const auto& [key, entry] : plain.all)
        if (const auto other = extension.all.find(key); other != extension.all.end()) {
            EXPECT_EQ(other->second, entry) << entry.name << " differs between the install forms";
        }
    EXPECT_TRUE(extension.made == plain.made) << "views differ between the install forms";
    EXPECT_EQ(extension.settings, plain.settings);
    compare_page("sql-reference.md", write_page(extension, plain));
}
