import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** Reads groups as lines of JSON, writes how Apache's sticky assignor shares out their tasks. */
public class StickyAssignor {
    static final ObjectMapper JSON = new ObjectMapper();

    static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> found = new HashMap<>();
        node.properties().forEach(s -> {
            Set<Integer> partitions = new HashSet<>();
            s.getValue().forEach(p -> partitions.add(p.asInt()));
            found.put(s.getKey(), partitions);
        });
        return found;
    }

    static void put(ObjectNode out, String kind, Map<String, Set<Integer>> tasks) {
        ObjectNode own = out.putObject(kind);
        new TreeMap<>(tasks).forEach((id, partitions) -> {
            ArrayNode list = own.putArray(id);
            partitions.stream().sorted().forEach(list::add);
        });
    }

    static ObjectNode assign(JsonNode asked) {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        asked.get("members").properties().forEach(m -> members.put(m.getKey(), new AssignmentMemberSpec(
            Optional.empty(), Optional.empty(),
            tasks(m.getValue().get("active")), tasks(m.getValue().get("standby")), Map.of(),
            m.getValue().get("process").asText(), Map.of(), Map.of(), Map.of())));
        TreeMap<String, JsonNode> subtopologies = new TreeMap<>();
        asked.get("subtopologies").properties().forEach(s -> subtopologies.put(s.getKey(), s.getValue()));
        TopologyDescriber describer = new TopologyDescriber() {
            public List<String> subtopologies() { return new ArrayList<>(subtopologies.keySet()); }
            public int maxNumInputPartitions(String id) { return subtopologies.get(id).get("tasks").asInt(); }
            public boolean isStateful(String id) { return subtopologies.get(id).get("stateful").asBoolean(); }
        };
        ObjectNode out = JSON.createObjectNode();
        new StickyTaskAssignor().assign(
            new GroupSpecImpl(members, Map.of("num.standby.replicas", asked.get("standbys").asText())), describer
        ).members().forEach((member, given) -> {
            ObjectNode own = out.putObject(member);
            put(own, "active", given.activeTasks());
            put(own, "standby", given.standbyTasks());
        });
        return out;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            ObjectNode out;
            try {
                out = assign(JSON.readTree(line));
            } catch (RuntimeException e) {
                out = JSON.createObjectNode().put("error", e.toString());
            }
            System.out.println(JSON.writeValueAsString(out));
            System.out.flush();
        }
    }
}
