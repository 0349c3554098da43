import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaNormalization;

/** Reads pairs of Avro schemas as lines of JSON, writes what Apache's library says of each. */
public class AvroAnswers {
    static final ObjectMapper JSON = new ObjectMapper();

    static ArrayNode kinds(Schema reader, Schema writer) {
        ArrayNode found = JSON.createArrayNode();
        var answer = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer);
        for (var each : answer.getResult().getIncompatibilities()) {
            found.add(each.getType().toString());
        }
        return found;
    }

    static Schema parse(ObjectNode answer, String name, JsonNode text) {
        try {
            Schema schema = new Schema.Parser().parse(text.asText());
            answer.put(name, schema.toString());
            answer.put(name + "_fingerprint",
                Long.toHexString(SchemaNormalization.parsingFingerprint64(schema)));
            return schema;
        } catch (RuntimeException e) {
            answer.putNull(name);
            return null;
        }
    }

    public static void main(String[] args) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            Schema older = parse(answer, "old", asked.get("old"));
            Schema newer = parse(answer, "new", asked.get("new"));
            if (older != null && newer != null) {
                answer.set("backward", kinds(newer, older));
                answer.set("forward", kinds(older, newer));
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }
}
