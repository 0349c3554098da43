import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Encodes messages by Apache Kafka's own generated classes.
 *
 * A line in is {"class": name, "version": number, "fields": {...}}; the line out is the bytes in hex, or "error" and
 * what was thrown.
 */
public class WireHarness {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.write(answer(mapper.readTree(line)));
            out.newLine();
        }
        out.flush();
    }

    private static String answer(JsonNode question) throws Exception {
        String name = question.get("class").asText();
        short version = (short) question.get("version").asInt();
        try {
            Class<?> converter = Class.forName(name + "JsonConverter");
            Method read = converter.getMethod("read", JsonNode.class, short.class);
            Message message = (Message) read.invoke(null, question.get("fields"), version);
            ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return HexFormat.of().formatHex(bytes);
        } catch (InvocationTargetException e) {
            return "error " + String.valueOf(e.getCause()).replace('\n', ' ');
        } catch (ReflectiveOperationException | RuntimeException e) {
            return "error " + String.valueOf(e).replace('\n', ' ');
        }
    }
}
