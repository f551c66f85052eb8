// Prices orders, a job per line (docs/protocol.md).
//
//     readpast work orders --keep -- java -cp 'examples/java/lib/*' examples/java/PriceOrders.java

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.List;
import java.util.Map;

public class PriceOrders {
    record Item(String product, int quantity) {}

    record Order(List<Item> items) {}

    record Job(long job_id, String payload_text) {}

    private static final Map<String, Long> PRICES = Map.of("book", 1250L, "pen", 120L); // in cents
    private static final Gson GSON = new Gson();

    public static void main(String[] args) throws IOException {
        // Standard output is only for replies: everything else that is printed goes to standard error.
        var replies = new PrintStream(new FileOutputStream(FileDescriptor.out), false, UTF_8);
        System.setOut(System.err);

        var jobs = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line; (line = jobs.readLine()) != null; ) {
            var job = GSON.fromJson(line, Job.class);
            var reply = new JsonObject();
            reply.addProperty("job_id", job.job_id());
            try {
                reply.addProperty("output_text", Long.toString(price(job)));
            } catch (JsonParseException e) { // the payload will never be right
                reply.addProperty("error", e.getMessage());
                reply.addProperty("dead", true);
            } catch (Exception e) { // another attempt may succeed
                var trace = new StringWriter();
                e.printStackTrace(new PrintWriter(trace));
                reply.addProperty("error", trace.toString());
            }
            replies.print(GSON.toJson(reply) + "\n");
            replies.flush();
        }
    }

    private static long price(Job job) {
        if (job.payload_text() == null) {
            throw new JsonParseException("the payload is not text");
        }
        var order = GSON.fromJson(job.payload_text(), Order.class);
        if (order == null || order.items() == null) {
            throw new JsonParseException("the order has no items");
        }
        return order.items().stream().mapToLong(item -> item.quantity() * priceOf(item.product())).sum();
    }

    private static long priceOf(String product) {
        var price = PRICES.get(product);
        if (price == null) {
            throw new IllegalStateException("no price for " + product);
        }
        return price;
    }
}
