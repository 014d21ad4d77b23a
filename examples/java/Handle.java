// Handles the messages of the inbox "payments", each exactly once, until SIGTERM:
//   java -cp postgresql.jar Handle.java jdbc:postgresql://localhost/shop?user=...
//
// Needs examples/shop.sql, and PostgreSQL's JDBC driver (org.postgresql:postgresql). Start as many as you like.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

public class Handle {
    record Message(String id, String type, String payload, String token) {}

    // The message can never be handled.
    static class Reject extends Exception {
        Reject(String why) { super(why); }
    }

    // Run a statement whose parameters are texts; returns the number of rows.
    static int run(Connection db, String sql, Object... values) throws SQLException {
        try (var statement = db.prepareStatement(sql)) {
            for (int i = 0; i < values.length; ++i) statement.setObject(i + 1, values[i]);
            if (!statement.execute()) return statement.getUpdateCount();
            return 0;
        }
    }

    // Do the work, in the transaction that is open. The server reads the JSON; a library of yours may do it, too.
    static void handle(Connection db, Message message) throws Exception {
        if (!message.type().equals("payment.received")) throw new Reject("what is a " + message.type() + "?");
        int paid = run(db, """
            update orders set paid = true from (select ?::jsonb as payment) m
             where id = (payment ->> 'order')::bigint and total <= (payment ->> 'amount')::bigint""", message.payload());
        if (paid == 0) throw new Exception("no such order yet, or not enough");   // comes again later
        run(db, """
            select baton.publish('order_events', 'order.paid', payment, 'order', payment ->> 'order')
              from (select ?::jsonb as payment) m""", message.payload());
    }

    static void process(Connection db, Message message) throws SQLException {
        try {
            handle(db, message);                     // the work and the note that it is done: both, or neither
            run(db, "select baton.complete('payments', ?::text, ?::uuid)", message.id(), message.token());
            db.commit();
        } catch (Exception error) {
            db.rollback();
            if (error instanceof SQLException refused && "BT001".equals(refused.getSQLState()))
                return;                              // the lease is lost: somebody else has the message
            run(db, "select baton.fail('payments', ?::text, ?, ?, ?::uuid)",
                message.id(), error.getMessage(), error instanceof Reject, message.token());
            db.commit();
        }
    }

    static List<Message> claim(Connection db, String worker) throws SQLException {
        var messages = new ArrayList<Message>();
        try (var claim = db.prepareStatement(
                 "select event_id, event_type, payload, lease_token from baton.claim_inbox('payments', ?, 20, 30)")) {
            claim.setString(1, worker);
            try (var row = claim.executeQuery()) {
                while (row.next())
                    messages.add(new Message(row.getString(1), row.getString(2), row.getString(3), row.getString(4)));
            }
        }
        db.commit();
        return messages;
    }

    public static void main(String[] args) throws Exception {
        var stopping = new CountDownLatch(1);
        var worker = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping.countDown();
            try {
                worker.join();                       // finish the message that is being handled
            } catch (InterruptedException ignored) {
            }
        }));
        var name = java.net.InetAddress.getLocalHost().getHostName() + "-" + ProcessHandle.current().pid();
        try (var db = DriverManager.getConnection(args[0])) {
            db.setAutoCommit(false);
            while (stopping.getCount() > 0) {
                var messages = claim(db, name);
                for (var message : messages) process(db, message);
                if (messages.isEmpty()) stopping.await(200, TimeUnit.MILLISECONDS);
            }
        }
    }
}
