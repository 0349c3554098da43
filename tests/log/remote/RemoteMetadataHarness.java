import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import java.util.TreeMap;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;

/**
 * A line in is hex: the bytes that pk made of a record of __remote_log_metadata. The line out is what Apache Kafka's
 * serde makes of it after it has read it, and how it shows it; or, for "partition ID N COUNT", the partition of the topic.
 */
public class RemoteMetadataHarness {
    public static void main(String[] args) throws Exception {
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("partition")) {
                TopicPartition partition = new TopicPartition("t", Integer.parseInt(words[2]));
                int count = Integer.parseInt(words[3]);
                System.out.println(new RemoteLogMetadataTopicPartitioner(count)
                    .metadataPartition(new TopicIdPartition(Uuid.fromString(words[1]), partition)));
            } else {
                RemoteLogMetadata record = serde.deserialize(HexFormat.of().parseHex(line));
                System.out.println(HexFormat.of().formatHex(serde.serialize(record)) + " " + record);
            }
        }
    }
}
