import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Reads logins, rules and patterns as lines of JSON, writes what Kafka and Java make of them. */
public class SecurityAnswers {
    static final ObjectMapper JSON = new ObjectMapper();

    static void jaas(JsonNode asked, ObjectNode answer) {
        JaasContext context = JaasContext.loadClientContext(
            Map.of("sasl.jaas.config", new Password(asked.get("text").asText())));
        AppConfigurationEntry entry = context.configurationEntries().get(0);
        answer.put("module", entry.getLoginModuleName());
        ObjectNode options = answer.putObject("options");
        entry.getOptions().forEach((key, value) -> options.put(key, (String) value));
    }

    static void certificate(JsonNode asked, ObjectNode answer) throws Exception {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(asked.get("rules").asText());
        } catch (RuntimeException e) {
            answer.put("bad", e.toString());
            return;
        }
        answer.put("name", mapper.getName(asked.get("subject").asText()));
    }

    static void kerberos(JsonNode asked, ObjectNode answer) throws Exception {
        KerberosShortNamer namer;
        List<String> rules = new ArrayList<>();
        asked.get("rules").forEach(rule -> rules.add(rule.asText()));
        try {
            namer = KerberosShortNamer.fromUnparsedRules(asked.get("realm").asText(), rules);
        } catch (RuntimeException e) {
            answer.put("bad", e.toString());
            return;
        }
        answer.put("name", namer.shortName(KerberosName.parse(asked.get("principal").asText())));
    }

    static void unsecured(JsonNode asked, ObjectNode answer) throws Exception {
        Map<String, String> options = new java.util.HashMap<>();
        asked.get("options").fields().forEachRemaining(one -> options.put(one.getKey(), one.getValue().asText()));
        var handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
        handler.configure(Map.of(), "OAUTHBEARER", List.of(new AppConfigurationEntry(
            OAuthBearerLoginModule.class.getName(), AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options)));
        var callback = new OAuthBearerValidatorCallback(asked.get("token").asText());
        handler.handle(new Callback[] {callback});
        if (callback.token() == null) answer.put("refused", callback.errorStatus());
        else answer.put("name", callback.token().principalName());
    }

    static void pattern(JsonNode asked, ObjectNode answer) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(asked.get("pattern").asText());
        } catch (RuntimeException e) {
            answer.put("bad", e.toString());
            return;
        }
        var found = answer.putArray("found");
        for (JsonNode text : asked.get("texts")) {
            var groups = found.addArray();
            Matcher matcher = pattern.matcher(text.asText());
            if (matcher.matches()) {
                for (int i = 0; i <= matcher.groupCount(); i++) groups.add(matcher.group(i));
            }
            try {
                groups.add(matcher.reset().replaceAll(asked.get("replacement").asText()));
            } catch (RuntimeException e) {
                groups.add("! " + e.getClass().getSimpleName());
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                switch (asked.get("kind").asText()) {
                    case "jaas" -> jaas(asked, answer);
                    case "certificate" -> certificate(asked, answer);
                    case "kerberos" -> kerberos(asked, answer);
                    case "unsecured" -> unsecured(asked, answer);
                    case "pattern" -> pattern(asked, answer);
                    default -> throw new IllegalArgumentException("unknown kind");
                }
            } catch (StackOverflowError | Exception e) {
                answer.removeAll();
                answer.put("refused", e.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }
}
