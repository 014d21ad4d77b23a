// Places an order and publishes the event, in one transaction:
//   java -cp postgresql.jar Publish.java jdbc:postgresql://localhost/shop?user=... ORDER TOTAL
//
// Needs examples/shop.sql, and PostgreSQL's JDBC driver (org.postgresql:postgresql).

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;

public class Publish {
    static long placeOrder(Connection db, long order, long total) throws SQLException {
        db.setAutoCommit(false);                     // the order and its event: both, or neither
        try (var insert = db.prepareStatement("insert into orders (id, total) values (?, ?)");
             var publish = db.prepareStatement(
                 "select baton.publish('order_events', 'order.placed', ?::jsonb, 'order', ?::bigint)")) {
            insert.setLong(1, order);
            insert.setLong(2, total);
            insert.executeUpdate();
            publish.setString(1, "{\"order\": %d, \"total\": %d}".formatted(order, total));
            publish.setLong(2, order);
            long event;
            try (var row = publish.executeQuery()) {
                row.next();
                event = row.getLong(1);
            }
            db.commit();
            return event;
        } catch (SQLException error) {
            db.rollback();
            throw error;
        }
    }

    public static void main(String[] args) throws SQLException {
        try (var db = DriverManager.getConnection(args[0])) {
            System.out.println("event " + placeOrder(db, Long.parseLong(args[1]), Long.parseLong(args[2])));
        }
    }
}
