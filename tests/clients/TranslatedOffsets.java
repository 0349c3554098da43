import java.time.Duration;
import java.util.Map;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Prints where groups go on in this cluster, as the checkpoints that MirrorMaker wrote here say:
 * lines "GROUP TOPIC PARTITION OFFSET". Arguments: BOOTSTRAP SOURCE-ALIAS GROUP...
 */
public class TranslatedOffsets {
    public static void main(String[] args) throws Exception {
        Map<String, Object> here = Map.of("bootstrap.servers", args[0]);
        for (int i = 2; i < args.length; i++) {
            String group = args[i];
            RemoteClusterUtils.translateOffsets(here, args[1], group, Duration.ofSeconds(60))
                .forEach((where, offset) -> System.out.println(
                    group + " " + where.topic() + " " + where.partition() + " " + offset.offset()));
        }
    }
}
