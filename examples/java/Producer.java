// Adds three orders, each with the job that prices it: one alone, two at once.
//
//     java -cp 'examples/java/lib/*' examples/java/Producer.java 1001

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Types;
import java.util.List;
import java.util.stream.Collectors;

public class Producer {
    record Order(int id, String customer) {
        String toJson() { // with text from elsewhere, use a JSON library
            return """
                    {"id": %d, "customer": "%s",
                     "items": [{"product": "book", "quantity": 2}, {"product": "pen", "quantity": 3}]}"""
                    .formatted(id, customer);
        }
    }

    public static void main(String[] args) throws SQLException {
        int id = Integer.parseInt(args[0]);
        try (var connection = DriverManager.getConnection(System.getenv("JDBC_URL"))) {
            createTable(connection);
            connection.setAutoCommit(false);
            try {
                long jobId = add(connection, new Order(id, "Ada"));
                connection.commit();
                System.out.println("job " + jobId);
                addMany(connection, List.of(new Order(id + 1, "Grace"), new Order(id + 2, "Edsger")));
                connection.commit();
            } catch (SQLException e) {
                connection.rollback();
                throw e;
            }
        }
    }

    private static long add(Connection connection, Order order) throws SQLException {
        try (var enqueue = connection.prepareCall("{call readpast.enqueue(@queue = ?, @text = ?, @kind = ?, @job_id = ?)}");
                var insert = connection.prepareStatement(
                        "INSERT dbo.orders (id, customer, pricing_job) VALUES (?, ?, ?)")) {
            enqueue.setString(1, "orders");
            enqueue.setString(2, order.toJson());
            enqueue.setString(3, "price");
            enqueue.registerOutParameter(4, Types.BIGINT);
            enqueue.execute();
            long jobId = enqueue.getLong(4);

            insert.setInt(1, order.id());
            insert.setString(2, order.customer());
            insert.setLong(3, jobId);
            insert.executeUpdate();
            return jobId;
        }
    }

    private static void addMany(Connection connection, List<Order> orders) throws SQLException {
        try (var insert = connection.prepareStatement("INSERT dbo.orders (id, customer) VALUES (?, ?)");
                var enqueue = connection.prepareStatement(
                        """
                        DECLARE @jobs readpast.enqueue_list;
                        INSERT @jobs (ordinal, text, kind) SELECT CAST([key] AS int), value, 'price' FROM OPENJSON(?);
                        EXEC readpast.enqueue_batch @queue = N'orders', @jobs = @jobs, @report = 0;
                        """)) {
            for (var order : orders) {
                insert.setInt(1, order.id());
                insert.setString(2, order.customer());
                insert.addBatch();
            }
            insert.executeBatch();
            enqueue.setString(1, orders.stream().map(Order::toJson).collect(Collectors.joining(",", "[", "]")));
            enqueue.execute(); // one round trip for all jobs
        }
    }

    private static void createTable(Connection connection) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.execute(
                    """
                    IF OBJECT_ID(N'dbo.orders') IS NULL
                        CREATE TABLE dbo.orders
                            (id int NOT NULL PRIMARY KEY, customer nvarchar(100) NOT NULL, pricing_job bigint NULL);
                    """);
        }
    }
}
