#include "cli/listings.hpp"

namespace baton::cli {

const std::vector<Column> outbox_columns{{"outbox", "OUTBOX"},
                                         {"events", "EVENTS", Form::count},
                                         {"bytes", "SIZE", Form::bytes},
                                         {"partitions", "PARTITIONS", Form::count},
                                         {"groups", "GROUPS", Form::count},
                                         {"dead_letters", "DEAD", Form::count, true},
                                         {"newest", "NEWEST", Form::time},
                                         {"kind", "KIND"}};
const std::vector<Column> group_columns{{"group", "GROUP"},
                                        {"outbox", "OUTBOX"},
                                        {"lag_events", "BEHIND", Form::count},
                                        {"lag_seconds", "FOR", Form::seconds},
                                        {"retrying", "RETRYING", Form::count},
                                        {"blocked", "BLOCKED", Form::count},
                                        {"dead_letters", "DEAD", Form::count, true},
                                        {"healthy_consumers", "CONSUMERS", Form::count},
                                        {"owner", "RELAY"}};
const std::vector<Column> lag_columns{{"group", "GROUP"},
                                      {"lag_events", "BEHIND", Form::count},
                                      {"lag_seconds", "FOR", Form::seconds},
                                      {"outbox", "OUTBOX"}};
const std::vector<Column> pipeline_columns{{"pipeline", "PIPELINE"},
                                           {"enabled", "ENABLED"},
                                           {"source", "FROM"},
                                           {"sink", "TO"},
                                           {"lag_events", "BEHIND", Form::count},
                                           {"lag_seconds", "FOR", Form::seconds},
                                           {"dead_letters", "DEAD", Form::count, true},
                                           {"owner", "RELAY"}};
const std::vector<Column> inbox_columns{{"inbox", "INBOX"},
                                        {"pending", "WAITING", Form::count},
                                        {"oldest_seconds", "FOR", Form::seconds},
                                        {"dead_letters", "DEAD", Form::count, true},
                                        {"ordered", "ORDERED"},
                                        {"health", "HEALTH"},
                                        {"layout", "LAYOUT"}};
const std::vector<Column> stream_columns{{"stream_table", "STREAM TABLE"},
                                         {"state", "STATE"},
                                         {"effective_mode", "MODE"},
                                         {"schedule", "SCHEDULE"},
                                         {"refreshed_at", "REFRESHED", Form::time},
                                         {"last_milliseconds", "TOOK MS"},
                                         {"failed_in_a_row", "FAILED", Form::count, true},
                                         {"error", "ERROR"}};

}  // namespace baton::cli
