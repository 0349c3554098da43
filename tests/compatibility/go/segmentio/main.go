// The scenarios through segmentio's kafka-go: segmentio SCENARIO BOOTSTRAP NAME [WORD].
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	. "compatibility/expected"

	"github.com/segmentio/kafka-go"
)

var bootstrap = strings.Split(os.Args[2], ",")

// toPartition sends each message where its Partition says: a Writer has no setting for that.
type toPartition struct{ kafka.Balancer }

func (toPartition) Balance(message kafka.Message, _ ...int) int {
	partition := 0
	for _, header := range message.Headers {
		if header.Key == "partition" {
			_, err := fmt.Sscan(string(header.Value), &partition)
			Must(err)
		}
	}
	return partition
}

func writer(topic string) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(bootstrap...), Topic: topic, Balancer: toPartition{}, RequiredAcks: kafka.RequireAll,
		BatchTimeout: 100 * time.Millisecond,
	}
}

func records(ctx context.Context, topic, codec string) {
	writing := writer(topic)
	if codec != "none" {
		Must(writing.Compression.UnmarshalText([]byte(codec)))
	}
	sent := []kafka.Message{}
	for _, row := range Rows() {
		sent = append(sent, kafka.Message{
			Key: row.Key, Value: row.Value, Time: time.UnixMilli(row.TimestampMs),
			Headers: []kafka.Header{{Key: "n", Value: []byte(row.Header)}},
		})
	}
	Must(writing.WriteMessages(ctx, sent...))
	Must(writing.Close())
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: bootstrap, Topic: topic, IsolationLevel: kafka.ReadCommitted, MaxWait: 500 * time.Millisecond,
	})
	defer reader.Close()
	found := []Row{}
	for len(found) < Count {
		m, err := reader.ReadMessage(ctx)
		Must(err)
		found = append(found, Row{m.Key, m.Value, string(m.Headers[0].Value), m.Time.UnixMilli()})
	}
	Check("records", found, Rows())
}

type member struct {
	topic      string
	group      *kafka.ConsumerGroup
	values     *Values
	cancel     context.CancelFunc
	ended      chan struct{}
	lock       sync.Mutex
	generation *kafka.Generation
	held       int
	next       map[int]int64
}

func (m *member) Held() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.held
}

func (m *member) Commit() {
	m.lock.Lock()
	defer m.lock.Unlock()
	Must(m.generation.CommitOffsets(map[string]map[int]int64{m.topic: m.next}))
}

func (m *member) Close() {
	m.cancel()
	Must(m.group.Close())
	<-m.ended
}

func (m *member) read(ctx context.Context, assigned kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: bootstrap, Topic: m.topic, Partition: assigned.ID, MaxWait: 500 * time.Millisecond,
	})
	defer reader.Close()
	Must(reader.SetOffset(assigned.Offset))
	for {
		message, err := reader.ReadMessage(ctx)
		if ctx.Err() != nil || errors.Is(err, kafka.ErrGenerationEnded) {
			return
		}
		Must(err)
		m.lock.Lock()
		m.next[assigned.ID] = message.Offset + 1
		m.lock.Unlock()
		m.values.Add(message.Value) // last: who waits for it commits next
	}
}

func join(topic string, values *Values) Member {
	joined, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: topic, Brokers: bootstrap, Topics: []string{topic}, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 200 * time.Millisecond,
	})
	Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	self := &member{topic: topic, group: joined, values: values, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(self.ended)
		for {
			generation, err := joined.Next(ctx)
			if ctx.Err() != nil || errors.Is(err, kafka.ErrGroupClosed) {
				return
			}
			if err != nil { // kafka-go joins again by itself after what others' rebalances make of it
				continue
			}
			assigned := generation.Assignments[topic]
			self.lock.Lock()
			self.generation, self.held, self.next = generation, len(assigned), map[int]int64{}
			self.lock.Unlock()
			for _, each := range assigned {
				generation.Start(func(ctx context.Context) { self.read(ctx, each) })
			}
		}
	}()
	return self
}

func group(ctx context.Context, topic string) {
	writing := writer(topic)
	defer writing.Close()
	Group(func(values *Values) Member { return join(topic, values) }, func(partition int, value string) {
		where := kafka.Header{Key: "partition", Value: fmt.Appendf(nil, "%d", partition)}
		Must(writing.WriteMessages(ctx, kafka.Message{Value: []byte(value), Headers: []kafka.Header{where}}))
	})
}

func admin(ctx context.Context, topic string) {
	client := &kafka.Client{Addr: kafka.TCP(bootstrap...)}
	compact := []kafka.ConfigEntry{{ConfigName: "cleanup.policy", ConfigValue: "compact"}}
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: compact},
		{Topic: topic + "-gone", NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: compact},
	}})
	Must(err)
	for _, err := range created.Errors {
		Must(err)
	}
	Until("the topic", func() bool {
		found, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
		Must(err)
		return len(found.Topics) == 1 && len(found.Topics[0].Partitions) == 3
	})
	value := func(name string) string {
		asked := []kafka.DescribeConfigRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name},
		}}
		described, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: asked})
		Must(err)
		Must(described.Resources[0].Error)
		return described.Resources[0].ConfigEntries[0].ConfigValue
	}
	Check("cleanup.policy", value("cleanup.policy"), "compact")
	changed, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{
				Name: "retention.ms", Value: "123456", ConfigOperation: kafka.ConfigOperationSet,
			}},
		}},
	})
	Must(err)
	Must(changed.Resources[0].Error)
	Check("retention.ms", value("retention.ms"), "123456")
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic + "-gone"}})
	Must(err)
	for _, err := range deleted.Errors {
		Must(err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*Wait)
	defer cancel()
	topic := os.Args[3]
	switch os.Args[1] {
	case "records":
		records(ctx, topic, os.Args[4])
	case "group":
		group(ctx, topic)
	case "admin":
		admin(ctx, topic)
	}
}
