import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Reads cases as lines of JSON, writes what Apache's server-side assignors make of them. */
public class ServerAssignors {
    static final ObjectMapper JSON = new ObjectMapper();

    static Optional<String> text(JsonNode node) {
        return node == null || node.isNull() ? Optional.empty() : Optional.of(node.asText());
    }

    static ObjectNode assign(JsonNode asked) throws Exception {
        Map<Uuid, Integer> counts = new HashMap<>();
        asked.get("topics").properties().forEach(t -> counts.put(Uuid.fromString(t.getKey()), t.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        asked.get("members").properties().forEach(m -> {
            Set<Uuid> topics = new HashSet<>();
            m.getValue().get("topics").forEach(t -> topics.add(Uuid.fromString(t.asText())));
            Map<Uuid, Set<Integer>> target = new HashMap<>();
            m.getValue().get("target").properties().forEach(t -> {
                Uuid id = Uuid.fromString(t.getKey());
                List<Integer> partitions = new ArrayList<>();
                t.getValue().forEach(p -> {
                    partitions.add(p.asInt());
                    inverted.computeIfAbsent(id, i -> new HashMap<>()).put(p.asInt(), m.getKey());
                });
                target.put(id, new HashSet<>(partitions));
            });
            members.put(m.getKey(), new MemberSubscriptionAndAssignmentImpl(
                text(m.getValue().get("rack")), text(m.getValue().get("instance")), topics,
                new Assignment(Collections.unmodifiableMap(target))));
        });
        ConsumerGroupPartitionAssignor assignor =
            asked.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) { return counts.getOrDefault(id, -1); }
            public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
        };
        ObjectNode out = JSON.createObjectNode();
        assignor.assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members),
                asked.get("alike").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, inverted),
            describer
        ).members().forEach((member, given) -> {
            ObjectNode own = out.putObject(member);
            given.partitions().forEach((id, partitions) -> {
                ArrayNode list = own.putArray(id.toString());
                partitions.stream().sorted().forEach(list::add);
            });
        });
        return out;
    }

    static Optional<CoordinatorMetadataImage.TopicMetadata> metadata(JsonNode topics, Object name) {
        JsonNode topic = topics.get((String) name);
        if (topic == null) return Optional.empty();
        return Optional.of((CoordinatorMetadataImage.TopicMetadata) Proxy.newProxyInstance(
            ServerAssignors.class.getClassLoader(),
            new Class<?>[] {CoordinatorMetadataImage.TopicMetadata.class},
            (proxy, method, args) -> switch (method.getName()) {
                case "name" -> name;
                case "id" -> Uuid.fromString(topic.get("id").asText());
                case "partitionCount" -> topic.get("racks").size();
                case "partitionRacks" -> {
                    List<String> racks = new ArrayList<>();
                    topic.get("racks").get((int) args[0]).forEach(r -> racks.add(r.asText()));
                    yield racks;
                }
                default -> throw new IllegalStateException(method.getName());
            }));
    }

    static ObjectNode hash(JsonNode topics) {
        CoordinatorMetadataImage image = (CoordinatorMetadataImage) Proxy.newProxyInstance(
            ServerAssignors.class.getClassLoader(), new Class<?>[] {CoordinatorMetadataImage.class},
            (proxy, method, args) -> metadata(topics, args[0]));
        Map<String, Long> hashes = new HashMap<>();
        ObjectNode out = JSON.createObjectNode();
        ObjectNode each = out.putObject("topics");
        topics.properties().forEach(t -> {
            hashes.put(t.getKey(), Utils.computeTopicHash(t.getKey(), image));
            each.put(t.getKey(), hashes.get(t.getKey()));
        });
        out.put("group", Utils.computeGroupHash(hashes));
        return out;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            ObjectNode out;
            try {
                JsonNode asked = JSON.readTree(line);
                out = asked.has("hash") ? hash(asked.get("hash")) : assign(asked);
            } catch (RuntimeException e) {
                out = JSON.createObjectNode().put("error", e.toString());
            }
            System.out.println(out);
        }
    }
}
