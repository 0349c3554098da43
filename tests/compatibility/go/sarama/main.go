// The scenarios through sarama: sarama SCENARIO BOOTSTRAP NAME [WORD].
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	. "compatibility/expected"

	"github.com/IBM/sarama"
)

var bootstrap = strings.Split(os.Args[2], ",")

func config() *sarama.Config {
	found := sarama.NewConfig()
	found.Version = sarama.MaxVersion
	found.Producer.Return.Successes = true
	found.Producer.Partitioner = sarama.NewManualPartitioner
	found.Producer.RequiredAcks = sarama.WaitForAll
	found.Consumer.Offsets.Initial = sarama.OffsetOldest
	found.Consumer.Offsets.AutoCommit.Enable = false
	found.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	return found
}

func read(topic string, count int, isolation sarama.IsolationLevel) []*sarama.ConsumerMessage {
	its := config()
	its.Consumer.IsolationLevel = isolation
	consumer, err := sarama.NewConsumer(bootstrap, its)
	Must(err)
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	Must(err)
	defer partition.Close()
	found := []*sarama.ConsumerMessage{}
	limit := time.After(Wait)
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			found = append(found, message)
		case <-limit:
			return found
		}
	}
	return found
}

func bytesOf(value []byte) sarama.Encoder {
	if value == nil {
		return nil
	}
	return sarama.ByteEncoder(value)
}

func records(topic, codec string) {
	its := config()
	Must(its.Producer.Compression.UnmarshalText([]byte(codec)))
	its.Producer.Flush.Frequency = 100 * time.Millisecond
	writer, err := sarama.NewSyncProducer(bootstrap, its)
	Must(err)
	sent := []*sarama.ProducerMessage{}
	for _, row := range Rows() {
		sent = append(sent, &sarama.ProducerMessage{
			Topic: topic, Key: bytesOf(row.Key), Value: bytesOf(row.Value),
			Timestamp: time.UnixMilli(row.TimestampMs),
			Headers:   []sarama.RecordHeader{{Key: []byte("n"), Value: []byte(row.Header)}},
		})
	}
	Must(writer.SendMessages(sent))
	Must(writer.Close())
	found := []Row{}
	for _, m := range read(topic, Count, sarama.ReadCommitted) {
		found = append(found, Row{m.Key, m.Value, string(m.Headers[0].Value), m.Timestamp.UnixMilli()})
	}
	Check("records", found, Rows())
}

// member is also the handler of its group's sessions.
type member struct {
	group   sarama.ConsumerGroup
	values  *Values
	lock    sync.Mutex
	session sarama.ConsumerGroupSession
	cancel  context.CancelFunc
	ended   chan struct{}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = session
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = nil
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			session.MarkMessage(message, "") // first: who waits for the value commits next
			m.values.Add(message.Value)
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) Held() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	held := 0
	if m.session != nil {
		for _, partitions := range m.session.Claims() {
			held += len(partitions)
		}
	}
	return held
}

func (m *member) Commit() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session.Commit()
}

func (m *member) Close() {
	m.cancel()
	<-m.ended
	Must(m.group.Close())
}

func join(topic string, values *Values) Member {
	joined, err := sarama.NewConsumerGroup(bootstrap, topic, config())
	Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	self := &member{group: joined, values: values, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(self.ended)
		for ctx.Err() == nil {
			if err := joined.Consume(ctx, []string{topic}, self); ctx.Err() == nil {
				Must(err)
			}
		}
	}()
	return self
}

func group(topic string) {
	writer, err := sarama.NewSyncProducer(bootstrap, config())
	Must(err)
	Group(func(values *Values) Member { return join(topic, values) }, func(partition int, value string) {
		message := &sarama.ProducerMessage{Topic: topic, Partition: int32(partition), Value: sarama.StringEncoder(value)}
		_, _, err := writer.SendMessage(message)
		Must(err)
	})
}

func transactions(topic string) {
	its := config()
	its.Producer.Idempotent = true
	its.Producer.Transaction.ID = topic
	its.Net.MaxOpenRequests = 1
	writer, err := sarama.NewSyncProducer(bootstrap, its)
	Must(err)
	for _, word := range []string{"aborted", "committed"} {
		Must(writer.BeginTxn())
		for n := range 5 {
			value := sarama.StringEncoder(fmt.Sprintf("%s %d", word, n))
			_, _, err := writer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: value})
			Must(err)
		}
		if word == "committed" {
			Must(writer.CommitTxn())
		} else {
			Must(writer.AbortTxn())
		}
	}
	Must(writer.Close())
	found, wanted := []string{}, []string{}
	for n, m := range read(topic, 5, sarama.ReadCommitted) {
		found, wanted = append(found, string(m.Value)), append(wanted, fmt.Sprintf("committed %d", n))
	}
	Check("committed", found, wanted)
	Check("uncommitted", len(read(topic, 10, sarama.ReadUncommitted)), 10)
}

func admin(topic string) {
	asking, err := sarama.NewClusterAdmin(bootstrap, config())
	Must(err)
	defer asking.Close()
	compact := "compact"
	detail := &sarama.TopicDetail{
		NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"cleanup.policy": &compact},
	}
	Must(asking.CreateTopic(topic, detail, false))
	Must(asking.CreateTopic(topic+"-gone", detail, false))
	Until("the topic", func() bool {
		found, err := asking.DescribeTopics([]string{topic})
		Must(err)
		return len(found) == 1 && len(found[0].Partitions) == 3
	})
	value := func(name string) string {
		entries, err := asking.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
		Must(err)
		for _, entry := range entries {
			if entry.Name == name {
				return entry.Value
			}
		}
		return "none"
	}
	Check("cleanup.policy", value("cleanup.policy"), "compact")
	retention := "123456"
	change := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &retention},
	}
	Must(asking.IncrementalAlterConfig(sarama.TopicResource, topic, change, false))
	Check("retention.ms", value("retention.ms"), retention)
	Must(asking.DeleteTopic(topic + "-gone"))
}

func main() {
	topic := os.Args[3]
	switch os.Args[1] {
	case "records":
		records(topic, os.Args[4])
	case "group":
		group(topic)
	case "transactions":
		transactions(topic)
	case "admin":
		admin(topic)
	}
}
