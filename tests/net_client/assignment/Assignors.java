import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Reads cases as lines of JSON, writes what Java's own assignors make of them. */
public class Assignors {
    static final ObjectMapper JSON = new ObjectMapper();

    static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    static List<TopicPartition> partitions(JsonNode list) {
        List<TopicPartition> found = new ArrayList<>();
        list.forEach(p -> found.add(new TopicPartition(p.get(0).asText(), p.get(1).asInt())));
        return found;
    }

    static String text(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    static String string(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText();
    }

    static Subscription subscription(JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(t -> topics.add(t.asText()));
        String userData = string(member.get("user_data"));
        Subscription subscription = new Subscription(
            topics,
            userData == null ? null : ByteBuffer.wrap(Base64.getDecoder().decode(userData)),
            partitions(member.get("owned")),
            member.get("generation").asInt(),
            Optional.ofNullable(string(member.get("rack"))));
        Optional.ofNullable(string(member.get("instance"))).ifPresent(i ->
            subscription.setGroupInstanceId(Optional.of(i)));
        return subscription;
    }

    static Cluster cluster(JsonNode topics) {
        Map<String, Node> racks = new HashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        topics.properties().forEach(topic -> {
            int index = 0;
            for (JsonNode of : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                of.forEach(rack -> replicas.add(racks.computeIfAbsent(rack.asText(),
                    r -> new Node(racks.size(), "h", 1, r))));
                if (replicas.isEmpty()) replicas.add(racks.computeIfAbsent("", r -> new Node(racks.size(), "h", 1, null)));
                Node[] nodes = replicas.toArray(new Node[0]);
                infos.add(new PartitionInfo(topic.getKey(), index++, nodes[0], nodes, nodes));
            }
        });
        return new Cluster("c", new ArrayList<>(racks.values()), infos, Set.of(), Set.of());
    }

    static ObjectNode answer(JsonNode asked) throws Exception {
        ObjectNode out = JSON.createObjectNode();
        if (asked.has("encode")) {
            JsonNode member = asked.get("encode");
            List<TopicPartition> owned = partitions(member.get("owned"));
            int generation = member.get("generation").asInt();
            out.put("subscription", text(ConsumerProtocol.serializeSubscription(subscription(member))));
            out.put("assignment", text(ConsumerProtocol.serializeAssignment(new Assignment(owned))));
            for (String name : List.of("range", "sticky", "cooperative-sticky")) {
                ConsumerPartitionAssignor assignor = assignor(name);
                if (generation >= 0)
                    assignor.onAssignment(new Assignment(owned),
                        new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
                out.put(name, text(assignor.subscriptionUserData(Set.of())));
            }
            return out;
        }
        Map<String, Subscription> members = new HashMap<>();
        asked.get("members").properties().forEach(m -> members.put(m.getKey(), subscription(m.getValue())));
        Map<String, Assignment> assigned = assignor(asked.get("assignor").asText())
            .assign(cluster(asked.get("topics")), new GroupSubscription(members)).groupAssignment();
        assigned.forEach((member, assignment) -> {
            ArrayNode list = out.putArray(member);
            assignment.partitions().forEach(p -> list.addArray().add(p.topic()).add(p.partition()));
        });
        return out;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            ObjectNode out;
            try {
                out = answer(JSON.readTree(line));
            } catch (RuntimeException e) {
                out = JSON.createObjectNode().put("error", e.toString());
            }
            System.out.println(out);
        }
    }
}
