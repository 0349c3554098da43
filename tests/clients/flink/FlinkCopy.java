// A Flink job in a cluster of this process: copies topic SOURCE to topic SINK, exactly once, until it is killed.
//
//     java -cp ... FlinkCopy.java BOOTSTRAP SOURCE SINK CHECKPOINTS [CHECKPOINT]
//
// Its checkpoints are below the folder CHECKPOINTS; it goes on from CHECKPOINT, if that is given. Prints RUNNING first.

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

public class FlinkCopy {
    public static void main(String[] args) throws Exception {
        Configuration config = new Configuration();
        config.setString("execution.checkpointing.dir", "file://" + args[3]);
        config.setString("execution.checkpointing.storage", "filesystem");
        config.setString("execution.checkpointing.interval", "500 ms");
        config.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        config.setString("execution.checkpointing.num-retained", "3");
        if (args.length > 4) config.setString("execution.state-recovery.path", "file://" + args[4]);
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment(config);
        flink.setParallelism(1);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(args[0])
            .setTopics(args[1])
            .setGroupId(args[1])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(args[0])
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(args[2])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(args[2])
            .setProperty("transaction.timeout.ms", "60000")
            .build();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
        var job = flink.executeAsync("copy");
        System.out.println("RUNNING");
        job.getJobExecutionResult().get();
    }
}
