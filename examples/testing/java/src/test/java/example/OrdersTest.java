package example;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/** Run with: pk test -- mvn -q test */
class OrdersTest {
    private final String url = System.getenv("KAFKA_BOOTSTRAP_SERVERS");

    @Test
    void anOrderIsRead() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", url))) {
            admin.createTopics(List.of(new NewTopic("orders", 1, (short) 1))).all().get(1, TimeUnit.MINUTES);
        }
        // The broker's next two answers are that it does not lead: the client asks who does, and tries again.
        String pk = System.getenv().getOrDefault("PK", "pk");
        Process fault = new ProcessBuilder(pk, "test", "faults", "add", "fail", "Produce",
                "--error", "NOT_LEADER_OR_FOLLOWER", "--times", "2").inheritIO().start();
        assertEquals(0, fault.waitFor());

        try (var producer = new KafkaProducer<String, String>(
                Map.of("bootstrap.servers", url), new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("orders", "1 book")).get(1, TimeUnit.MINUTES);
        }
        try (var consumer = new KafkaConsumer<String, String>(
                Map.of("bootstrap.servers", url, "group.id", "billing", "auto.offset.reset", "earliest"),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            ConsumerRecords<String, String> read = ConsumerRecords.empty();
            long end = System.nanoTime() + Duration.ofMinutes(1).toNanos();
            while (read.isEmpty() && System.nanoTime() < end) {
                read = consumer.poll(Duration.ofSeconds(1));
            }
            for (ConsumerRecord<String, String> record : read) {
                assertEquals("1 book", record.value());
            }
            assertEquals(1, read.count());
        }
    }
}
