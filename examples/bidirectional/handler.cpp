// Between the inbox and the outbox: moves money for each request, once, and answers it: bidirectional_handler
// CONNINFO
//
// One transaction holds the message's row, the account, the transfer and the answer. So there is no instant
// at which one of them has happened and another has not, and nothing to clean up after a crash.

#include <baton/inbox_worker.hpp>

#include "../cpp/until_signal.hpp"

namespace {

const baton::Outbox answers("payment_answers");

// Answer the request: the answer goes back to the broker, under the request's id.
void answer(baton::Transaction& tx, const baton::Delivery& request, const std::string& type) {
    tx.publish(answers, baton::caused_by(request, {.type = type,
                                                   .payload = request.payload,
                                                   .partition_key = request.id.str(),
                                                   .headers = {{"request", request.id.str()}}}));
}

void handle(baton::Transaction& tx, const baton::Delivery& request) {
    const auto wanted =
        tx.query("select $1::jsonb ->> 'account', ($1::jsonb ->> 'amount')::bigint", {request.payload});
    if (wanted.is_null(0, 0) || wanted.is_null(0, 1))
        throw baton::Reject("a request names its account and its amount");
    const auto paid = tx.query("update accounts set balance = balance - $2 where id = $1 and balance >= $2",
                               {std::string(wanted.text(0, 0)), std::string(wanted.text(0, 1))});
    if (paid.affected() == 0) return answer(tx, request, "payment.refused");
    tx.query("insert into transfers values ($1, $2, $3)",
             {request.id, std::string(wanted.text(0, 0)), std::string(wanted.text(0, 1))});
    answer(tx, request, "payment.done");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: bidirectional_handler CONNINFO\n";
        return 2;
    }
    baton::InboxWorker worker(
        "payment_requests",
        {.conninfo = argv[1], .lease = std::chrono::seconds(5), .on_incident = log_incident}, handle);
    return run_until_signal(worker);
}
