import java.util.List;
import org.apache.kafka.tools.consumer.ConsoleConsumer;

/** Runs Apache's console consumer several times in one JVM. The runs' words follow one another, with "--and" between. */
public class ConsoleConsumers {
    static final String AND = "--and";
    static final String END = "<end>\n";

    public static void main(String[] args) throws Exception {
        List<String> left = List.of(args);
        while (!left.isEmpty()) {
            int at = left.indexOf(AND);
            List<String> words = at < 0 ? left : left.subList(0, at);
            left = at < 0 ? List.of() : left.subList(at + 1, left.size());
            ConsoleConsumer.main(words.toArray(new String[0]));
            System.out.print(END);
        }
        System.out.flush();
    }
}
