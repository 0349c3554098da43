// The scenarios through Apache's Java client: java -cp ... Scenarios.java SCENARIO BOOTSTRAP NAME [WORD].

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Scenarios {
    static final int COUNT = 100;
    static final int IN_GROUP = 400;
    static final int PARTITIONS = 4;
    static final long FIRST_MS = 1_700_000_000_000L;
    static final Duration WAIT = Duration.ofSeconds(60);
    static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[1];
        try {
            switch (args[0]) {
                case "records" -> records(args[2], args[3]);
                case "group" -> group(args[2], args[3]);
                case "transactions" -> transactions(args[2]);
                case "admin" -> admin(args[2]);
                default -> throw new IllegalArgumentException(args[0]);
            }
        } catch (Throwable error) {
            System.out.println(error);
            System.exit(1);
        }
    }

    static void check(String name, Object found, Object wanted) {
        if (!found.equals(wanted)) throw new AssertionError(name + ": " + found + " instead of " + wanted);
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static KafkaProducer<byte[], byte[]> producer(String... more) {
        return new KafkaProducer<>(config(more), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String... more) {
        return new KafkaConsumer<>(config(more), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static Properties config(String... more) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        for (int n = 0; n < more.length; n += 2) config.put(more[n], more[n + 1]);
        return config;
    }

    static List<ConsumerRecord<byte[], byte[]>> read(String topic, int count, String isolation) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        try (var consumer = consumer("isolation.level", isolation)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            long limit = System.nanoTime() + WAIT.toNanos();
            while (found.size() < count && System.nanoTime() < limit)
                consumer.poll(Duration.ofMillis(500)).forEach(found::add);
        }
        return found;
    }

    static void records(String topic, String codec) throws Exception {
        List<String> wanted = new ArrayList<>();
        List<Future<?>> sent = new ArrayList<>();
        try (var producer = producer("compression.type", codec, "linger.ms", "100")) {
            for (int n = 0; n < COUNT; n++) {
                String key = n % 10 == 0 ? null : "key " + n;
                String value = n % 10 == 5 ? null : ("value " + n + " ").repeat(20);
                Header header = new RecordHeader("n", bytes(Integer.toString(n)));
                sent.add(producer.send(
                    new ProducerRecord<>(topic, 0, FIRST_MS + n, bytes(key), bytes(value), List.of(header))));
                wanted.add(key + "/" + value + "/" + n + "/" + (FIRST_MS + n));
            }
            for (Future<?> future : sent) future.get();
        }
        List<String> found = new ArrayList<>();
        for (var record : read(topic, COUNT, "read_committed"))
            found.add(text(record.key()) + "/" + text(record.value()) + "/"
                + text(record.headers().lastHeader("n").value()) + "/" + record.timestamp());
        check("records", found, wanted);
    }

    static void until(String what, BooleanSupplier done, Set<String> values, List<KafkaConsumer<byte[], byte[]>> members) {
        long limit = System.nanoTime() + WAIT.toNanos();
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > limit) throw new AssertionError(what + ": not within " + WAIT.toSeconds() + " s");
            for (var member : members)
                for (var record : member.poll(Duration.ofMillis(100))) values.add(text(record.value()));
        }
    }

    static KafkaConsumer<byte[], byte[]> member(String topic, String protocol) {
        var member = consumer("group.id", topic, "group.protocol", protocol, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false");
        member.subscribe(List.of(topic));
        return member;
    }

    static void group(String topic, String protocol) throws Exception {
        Set<String> values = new HashSet<>();
        var first = member(topic, protocol);
        until("all partitions, all records",
            () -> first.assignment().size() == PARTITIONS && values.size() == IN_GROUP, values, List.of(first));
        first.commitSync();
        var second = member(topic, protocol);
        until("two partitions each", () -> first.assignment().size() == 2 && second.assignment().size() == 2, values,
            List.of(first, second));
        values.clear();
        try (var producer = producer()) {
            for (int n = 0; n < PARTITIONS; n++)
                producer.send(new ProducerRecord<>(topic, n, null, bytes("more " + n))).get();
        }
        until("more records", () -> values.equals(Set.of("more 0", "more 1", "more 2", "more 3")), values,
            List.of(first, second));
        first.commitSync();
        second.commitSync();
        second.close();
        until("all partitions again", () -> first.assignment().size() == PARTITIONS, values, List.of(first));
        first.close();
        try (var producer = producer()) {
            producer.send(new ProducerRecord<>(topic, 0, null, bytes("last"))).get();
        }
        values.clear();
        var third = member(topic, protocol);
        until("the last record", () -> !values.isEmpty(), values, List.of(third));
        check("after the commit", values, Set.of("last"));
        third.commitSync();
        third.close();
    }

    static void transactions(String topic) throws Exception {
        try (var producer = producer("transactional.id", topic)) {
            producer.initTransactions();
            for (String word : List.of("aborted", "committed")) {
                producer.beginTransaction();
                for (int n = 0; n < 5; n++) producer.send(new ProducerRecord<>(topic, 0, null, bytes(word + " " + n))).get();
                if (word.equals("committed")) producer.commitTransaction();
                else producer.abortTransaction();
            }
        }
        List<String> found = new ArrayList<>();
        for (var record : read(topic, 5, "read_committed")) found.add(text(record.value()));
        check("committed", found, List.of("committed 0", "committed 1", "committed 2", "committed 3", "committed 4"));
        check("uncommitted", read(topic, 10, "read_uncommitted").size(), 10);
    }

    static String value(Admin admin, String topic, String key) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(key).value();
    }

    static void admin(String topic) throws Exception {
        try (Admin admin = Admin.create(config())) {
            Map<String, String> config = Map.of("cleanup.policy", "compact");
            admin.createTopics(List.of(
                new NewTopic(topic, 3, (short) 1).configs(config),
                new NewTopic(topic + "-gone", 3, (short) 1).configs(config))).all().get();
            // Apache's controller answers before its brokers have heard.
            while (!admin.listTopics().names().get().containsAll(List.of(topic, topic + "-gone"))) Thread.sleep(20);
            var found = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            check("partitions", found.partitions().size(), 3);
            check("cleanup.policy", value(admin, topic, "cleanup.policy"), "compact");
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "123456"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            check("retention.ms", value(admin, topic, "retention.ms"), "123456");
            admin.deleteTopics(List.of(topic + "-gone")).all().get();
        }
    }
}
