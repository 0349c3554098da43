import java.io.FileReader;
import java.time.Duration;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces and consumes with each of several client configurations, by Java's clients: `TOPIC NAME FILE ...`. Prints a line
 * for each: the name, a tab, and OK or what went wrong. A name that begins with `token:` makes a delegation token with its
 * file, renews it, uses it, and expires it.
 */
public class SecurityMatrix {
    public static void main(String[] args) throws Exception {
        for (int i = 1; i + 1 < args.length; i += 2) {
            String said = "OK";
            try {
                Properties config = new Properties();
                try (FileReader file = new FileReader(args[i + 1])) {
                    config.load(file);
                }
                if (args[i].startsWith("token:")) {
                    byToken(config, args[0], args[i]);
                } else {
                    produceAndConsume(config, args[0], args[i]);
                }
            } catch (Throwable e) {
                Throwable cause = e;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                said = String.valueOf(cause).replace('\n', ' ');
            }
            System.out.println(args[i] + "\t" + said);
        }
    }

    private static void byToken(Properties config, String topic, String name) throws Exception {
        try (Admin admin = Admin.create(config)) {
            DelegationToken token = admin.createDelegationToken(new CreateDelegationTokenOptions()).delegationToken().get();
            List<DelegationToken> known = Collections.emptyList();
            // A broker knows of it a moment later, and of one that expired a moment longer.
            while (known.stream().noneMatch(each -> each.hmacAsBase64String().equals(token.hmacAsBase64String()))) {
                known = admin.describeDelegationToken().delegationTokens().get();
            }
            long expiry = admin.renewDelegationToken(token.hmac()).expiryTimestamp().get();
            if (expiry < token.tokenInfo().issueTimestamp()) {
                throw new IllegalStateException("renewed until " + expiry);
            }
            Properties own = new Properties();
            own.putAll(config);
            own.put("sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required username=\""
                + token.tokenInfo().tokenId() + "\" password=\"" + token.hmacAsBase64String() + "\" tokenauth=\"true\";");
            produceAndConsume(own, topic, name);
            admin.expireDelegationToken(token.hmac()).expiryTimestamp().get();
        }
    }

    private static void produceAndConsume(Properties config, String topic, String name) throws Exception {
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, 0, null, name)).get(60, TimeUnit.SECONDS);
        }
        try (KafkaConsumer<String, String> consumer =
                 new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            while (System.nanoTime() < until) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    if (record.value().equals(name)) {
                        return;
                    }
                }
            }
            throw new IllegalStateException("the record did not come");
        }
    }
}
