// baton names: what there is of a kind, one name per line, for a shell that completes words. It is quick, and
// says nothing when there is no database: somebody is typing.

#include <iostream>
#include <map>
#include <memory>

#include "cli/commands.hpp"
#include "cli/target.hpp"

namespace baton::cli {

namespace {

using namespace std::chrono_literals;

struct NamesAsked {
    Target target;
    std::vector<std::string> kinds;
};

const std::map<std::string, std::string> sources{
    {"group", "select group_name from baton.consumer_groups"},
    {"inbox", "select name from baton.inboxes"},
    {"outbox",
     "select relation::text from baton.outboxes union select format('%I.%I', schema_name, table_name) from "
     "baton.adopted_outboxes"},
    {"pipeline", "select name from baton.pipelines"},
    {"setting", "select name from baton.setting_defaults"},
    {"stream", "select relation::text from baton.stream_tables"}};

// Only names that a shell takes as they stand.
int names(const NamesAsked& asked) {
    try {
        const auto patience = std::make_shared<postgres::Patience>(1s);
        patience->end_by(postgres::Patience::Clock::now() + 1500ms);
        postgres::Connection db(find_server(asked.target), "baton names", patience);
        for (const auto& kind : asked.kinds) {
            const auto found =
                db.query("select n from (" + sources.at(kind) +
                         R"() s (n) where n ~ '^[A-Za-z0-9_.:@%+=,/-]+$' order by 1 limit 1000)");
            for (int row = 0; row < found.rows(); ++row) std::cout << found.text(row, 0) << "\n";
        }
    } catch (const std::exception&) {
    }
    return done;
}

}  // namespace

void add_names(Program& program) {
    auto asked = std::make_shared<NamesAsked>();
    auto& command = program.add("names", "names of a kind, for shells", [asked] { return names(*asked); });
    command.group("");  // shells call it, people do not
    add_target(command, asked->target);
    command.add_option("KIND", asked->kinds, "of what")
        ->required()
        ->check(CLI::IsMember({"group", "inbox", "outbox", "pipeline", "setting", "stream"}));
}

}  // namespace baton::cli
