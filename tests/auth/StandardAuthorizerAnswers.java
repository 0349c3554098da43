import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Reads rules and questions as lines of JSON, writes the answers of Kafka's own authorizer. */
public class StandardAuthorizerAnswers {
    static final ObjectMapper JSON = new ObjectMapper();

    record Asker(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "c"; }
        public int correlationId() { return 0; }
    }

    static Asker asker(JsonNode node) throws Exception {
        KafkaPrincipal principal = SecurityUtils.parseKafkaPrincipal(node.get("principal").asText());
        return new Asker(principal, InetAddress.getByName(node.get("host").asText()));
    }

    static AclOperation operation(JsonNode node) {
        return AclOperation.fromCode((byte) node.asInt());
    }

    static ResourceType type(JsonNode node) {
        return ResourceType.fromCode((byte) node.asInt());
    }

    static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    static String key(AclBinding b) {
        return String.join("|", String.valueOf(b.pattern().resourceType().code()), b.pattern().name(),
            String.valueOf(b.pattern().patternType().code()), b.entry().principal(), b.entry().host(),
            String.valueOf(b.entry().operation().code()), String.valueOf(b.entry().permissionType().code()));
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            StandardAuthorizer authorizer = new StandardAuthorizer();
            Map<String, Object> configs = new HashMap<>();
            configs.put("node.id", "1");
            configs.put("super.users", asked.get("super_users").asText());
            configs.put("allow.everyone.if.no.acl.found", asked.get("allow").asText());
            authorizer.configure(configs);
            authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
            Map<Uuid, StandardAcl> acls = new HashMap<>();
            for (JsonNode a : asked.get("acls")) {
                acls.put(Uuid.randomUuid(), new StandardAcl(type(a.get(0)), a.get(1).asText(),
                    PatternType.fromCode((byte) a.get(2).asInt()), a.get(3).asText(), a.get(4).asText(),
                    operation(a.get(5)), AclPermissionType.fromCode((byte) a.get(6).asInt())));
            }
            authorizer.loadSnapshot(acls);
            authorizer.completeInitialLoad();
            var answer = JSON.createObjectNode();
            ArrayNode decided = answer.putArray("allows");
            for (JsonNode q : asked.get("questions")) {
                Action action = new Action(operation(q.get("operation")),
                    new ResourcePattern(type(q.get("type")), q.get("name").asText(), PatternType.LITERAL), 1, true, true);
                decided.add(authorizer.authorize(asker(q), List.of(action)).get(0) == AuthorizationResult.ALLOWED);
            }
            ArrayNode any = answer.putArray("allows_any");
            for (JsonNode q : asked.get("any_questions")) {
                any.add(authorizer.authorizeByResourceType(asker(q), operation(q.get("operation")), type(q.get("type")))
                    == AuthorizationResult.ALLOWED);
            }
            ArrayNode selected = answer.putArray("selected");
            for (JsonNode f : asked.get("filters")) {
                AclBindingFilter filter = new AclBindingFilter(
                    new ResourcePatternFilter(type(f.get(0)), text(f.get(1)), PatternType.fromCode((byte) f.get(2).asInt())),
                    new AccessControlEntryFilter(text(f.get(3)), text(f.get(4)), operation(f.get(5)),
                        AclPermissionType.fromCode((byte) f.get(6).asInt())));
                List<String> keys = new ArrayList<>();
                for (AclBinding binding : authorizer.acls(filter)) keys.add(key(binding));
                keys.sort(null);
                ArrayNode one = selected.addArray();
                keys.forEach(one::add);
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }
}
