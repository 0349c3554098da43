// The scenarios through franz-go: franz SCENARIO BOOTSTRAP NAME [WORD].
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	. "compatibility/expected"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var bootstrap = strings.Split(os.Args[2], ",")

func client(options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	found, err := kgo.NewClient(options...)
	Must(err)
	return found
}

func read(topic string, count int, isolation kgo.IsolationLevel) []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), Wait)
	defer cancel()
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	reader := client(kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(isolation))
	defer reader.Close()
	found := []*kgo.Record{}
	for len(found) < count && ctx.Err() == nil {
		fetches := reader.PollFetches(ctx)
		Must(fetches.Err0())
		found = append(found, fetches.Records()...)
	}
	return found
}

func records(ctx context.Context, topic, codec string) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	writer := client(kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerLinger(100*time.Millisecond))
	defer writer.Close()
	sent := []*kgo.Record{}
	for _, row := range Rows() {
		sent = append(sent, &kgo.Record{
			Topic: topic, Key: row.Key, Value: row.Value, Timestamp: time.UnixMilli(row.TimestampMs),
			Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(row.Header)}},
		})
	}
	Must(writer.ProduceSync(ctx, sent...).FirstErr())
	found := []Row{}
	for _, r := range read(topic, Count, kgo.ReadCommitted()) {
		found = append(found, Row{r.Key, r.Value, string(r.Headers[0].Value), r.Timestamp.UnixMilli()})
	}
	Check("records", found, Rows())
}

type member struct {
	client *kgo.Client
	lock   sync.Mutex
	held   int
	ended  chan struct{}
}

func (m *member) moved(by int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.held += by
}

func (m *member) Held() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.held
}

func (m *member) Commit() { Must(m.client.CommitUncommittedOffsets(context.Background())) }

func (m *member) Close() {
	m.client.Close()
	<-m.ended
}

func count(partitions map[string][]int32) int {
	sum := 0
	for _, each := range partitions {
		sum += len(each)
	}
	return sum
}

func join(topic, protocol string, values *Values) Member {
	self := &member{ended: make(chan struct{})}
	type moved = func(context.Context, *kgo.Client, map[string][]int32)
	by := func(sign int) moved {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			self.moved(sign * count(partitions))
		}
	}
	options := []kgo.Opt{
		kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(by(1)), kgo.OnPartitionsRevoked(by(-1)), kgo.OnPartitionsLost(by(-1)),
	}
	if protocol == "consumer" {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
	}
	self.client = client(options...)
	go func() {
		defer close(self.ended)
		for {
			fetches := self.client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			Must(fetches.Err0())
			fetches.EachRecord(func(r *kgo.Record) { values.Add(r.Value) })
		}
	}()
	return self
}

func group(ctx context.Context, topic, protocol string) {
	writer := client()
	defer writer.Close()
	Group(func(values *Values) Member { return join(topic, protocol, values) }, func(partition int, value string) {
		record := &kgo.Record{Topic: topic, Partition: int32(partition), Value: []byte(value)}
		Must(writer.ProduceSync(ctx, record).FirstErr())
	})
}

func transactions(ctx context.Context, topic string) {
	writer := client(kgo.TransactionalID(topic))
	defer writer.Close()
	write(ctx, writer, topic, "aborted", kgo.TryAbort)
	write(ctx, writer, topic, "committed", kgo.TryCommit)
	found, wanted := []string{}, []string{}
	for n, r := range read(topic, 5, kgo.ReadCommitted()) {
		found, wanted = append(found, string(r.Value)), append(wanted, fmt.Sprintf("committed %d", n))
	}
	Check("committed", found, wanted)
	Check("uncommitted", len(read(topic, 10, kgo.ReadUncommitted())), 10)
}

func write(ctx context.Context, writer *kgo.Client, topic, word string, end kgo.TransactionEndTry) {
	Must(writer.BeginTransaction())
	for n := range 5 {
		Must(writer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%s %d", word, n)}).FirstErr())
	}
	Must(writer.EndTransaction(ctx, end))
}

func admin(ctx context.Context, topic string) {
	asking := kadm.NewClient(client())
	defer asking.Close()
	compact := "compact"
	created, err := asking.CreateTopics(ctx, 3, 1, map[string]*string{"cleanup.policy": &compact}, topic, topic+"-gone")
	Must(err)
	Must(created.Error())
	Until("the topics", func() bool {
		found, err := asking.ListTopics(ctx, topic)
		Must(err)
		return len(found[topic].Partitions) == 3
	})
	value := func(name string) string {
		described, err := asking.DescribeTopicConfigs(ctx, topic)
		Must(err)
		config, err := described.On(topic, nil)
		Must(err)
		for _, each := range config.Configs {
			if each.Key == name {
				return each.MaybeValue()
			}
		}
		return "none"
	}
	Check("cleanup.policy", value("cleanup.policy"), "compact")
	retention := "123456"
	changed, err := asking.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &retention}}, topic)
	Must(err)
	Must(changed[0].Err)
	Check("retention.ms", value("retention.ms"), retention)
	deleted, err := asking.DeleteTopics(ctx, topic+"-gone")
	Must(err)
	Must(deleted.Error())
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*Wait)
	defer cancel()
	topic := os.Args[3]
	switch os.Args[1] {
	case "records":
		records(ctx, topic, os.Args[4])
	case "group":
		group(ctx, topic, os.Args[4])
	case "transactions":
		transactions(ctx, topic)
	case "admin":
		admin(ctx, topic)
	}
}
