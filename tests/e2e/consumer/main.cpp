// A user's program: every public header, an error that crosses the library's border, and with a URL a round
// trip from a publish to a handler.

#include <libpq-fe.h>

#include <baton/baton.hpp>
#include <baton/json.hpp>
#include <cstdlib>
#include <iostream>

struct Greeting {
    std::string words;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Greeting, words)

template <>
struct baton::Codec<Greeting> : baton::JsonCodec<Greeting> {
    static constexpr std::string_view event_type = "greeting";
};

namespace {

bool catches_errors() {
    try {
        throw baton::SqlError("deadlock detected", "40P01");
    } catch (const baton::Error& error) {
        if (!error.retryable()) return false;
    }
    try {
        const baton::Outbox none("no name at all");
    } catch (const baton::UsageError&) {  // thrown inside the library
        return true;
    }
    return false;
}

void run(PGconn* db, const char* sql) {
    PGresult* result = PQexec(db, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
        std::cerr << PQerrorMessage(db);
        std::exit(1);
    }
    PQclear(result);
}

void round_trip(const char* url) {
    PGconn* db = PQconnectdb(url);
    run(db, "select baton.create_outbox('greetings', if_not_exists => true)");
    run(db, "select baton.create_consumer_group('readers', 'greetings', 'earliest')");
    run(db, "begin");
    baton::Outbox("greetings").publish(db, Greeting{"hello"});
    run(db, "commit");
    PQfinish(db);
    baton::GroupConsumer reader("readers", {.conninfo = url},
                                baton::Handlers().on<Greeting>([](auto&, const Greeting& greeting, auto&) {
                                    std::cout << greeting.words << "\n";
                                }));
    reader.drain();
}

}  // namespace

int main(int argc, char** argv) {
    if (!catches_errors()) return 1;
    if (argc > 1)
        round_trip(argv[1]);
    else
        std::cout << baton::version() << "\n";
}
