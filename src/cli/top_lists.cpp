#include "cli/top_lists.hpp"

namespace baton::cli {

const std::vector<List>& lists() {
    static const std::vector<List> all{
        {"groups",
         "list_groups",
         "show_group",
         "group",
         {{"group", "GROUP"},
          {"lag_events", "BEHIND", Form::count},
          {"lag_seconds", "FOR", Form::seconds},
          {"rate", "SETTLED/s", Form::count},
          {"trend", "TREND"},
          {"dead_letters", "DEAD", Form::count, true},
          {"outbox", "OUTBOX"}},
         {{"consumers", "list_consumers", "group", "group", &consumer_columns},
          {"leases", "list_leases", "group", "group", &lease_columns},
          {"blocked keys", "list_blocked_keys", "group", "group", &blocked_columns},
          {"dead letters", "list_dead_letters", "place", "group", &letter_columns}}},
        {"outboxes",
         "list_outboxes",
         "show_outbox",
         "outbox",
         {{"outbox", "OUTBOX"},
          {"published", "PUBLISHED", Form::count},
          {"rate", "PER SECOND", Form::count},
          {"trend", "TREND"},
          {"bytes", "SIZE", Form::bytes},
          {"dead_letters", "DEAD", Form::count, true}},
         {{"partitions", "list_partitions", "outbox", "outbox", &partition_columns}}},
        {"pipelines",
         "list_pipelines",
         "show_pipeline",
         "pipeline",
         pipeline_columns,
         {{"consumers", "list_consumers", "group", "group", &consumer_columns},
          {"blocked keys", "list_blocked_keys", "group", "group", &blocked_columns},
          {"dead letters", "list_dead_letters", "place", "group", &letter_columns}}},
        {"inboxes",
         "list_inboxes",
         "show_inbox",
         "inbox",
         inbox_columns,
         {{"blocked aggregates", "list_blocked_aggregates", "inbox", "inbox", &aggregate_columns},
          {"dead letters", "list_dead_letters", "place", "inbox", &letter_columns},
          {"messages that wait", "list_messages", "inbox", "inbox", &message_columns}}},
        {"streams",
         "list_stream_tables",
         "show_stream_table",
         "stream_table",
         stream_columns,
         {{"refreshes", "list_refreshes", "stream_table", "stream_table", &refresh_columns}}},
    };
    return all;
}

}  // namespace baton::cli
