// A Kafka Streams application for tests: a word count, or a join of two streams in windows.
//
//     java -cp ... StreamsApplication.java word-count|windowed-join PREFIX [CONFIG=VALUE ...]
//
// Topics begin with PREFIX. The word count reads "lines" and writes each new count of a word to "counts" (word, count). The
// join reads "left" and "right" and writes every pair of values with the same key to "pairs". Its states are printed; it ends
// with its standard input.

import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.StreamJoined;

public class StreamsApplication {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        for (String word : Arrays.copyOfRange(args, 2, args.length)) {
            String[] parts = word.split("=", 2);
            config.put(parts[0], parts[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        switch (args[0]) {
            case "word-count" -> wordCount(builder, args[1]);
            case "windowed-join" -> windowedJoin(builder, args[1]);
            default -> throw new IllegalArgumentException(args[0]);
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((now, before) -> say("STATE " + now));
        streams.setUncaughtExceptionHandler(error -> {
            say("FAILED " + error + " because of " + error.getCause());
            return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
        });
        streams.start();
        while (System.in.read() >= 0) {}
        streams.close(Duration.ofMinutes(4));
        say("CLOSED");
    }

    static void wordCount(StreamsBuilder builder, String prefix) {
        builder.<String, String>stream(prefix + "lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(prefix + "counts");
    }

    static void windowedJoin(StreamsBuilder builder, String prefix) {
        KStream<String, String> left = builder.stream(prefix + "left");
        KStream<String, String> right = builder.stream(prefix + "right");
        left.join(
                right,
                (l, r) -> l + " " + r,
                JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofHours(1)),
                StreamJoined.as("both"))
            .to(prefix + "pairs");
    }

    static void say(String words) {
        System.out.println(words);
        System.out.flush();
    }
}
