// Transactions by franz-go. `transactions` writes four of them, two aborted, with the same producer, which a second
// instance then fences; `copy` reads a topic and writes another, exactly once, with an abort now and then: so many
// records, or without end with -1. `secured` logs in, and writes and reads one record (secured.go).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func producer(bootstrap, id, topic string) *kgo.Client {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.TransactionalID(id),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	must(err)
	return client
}

func write(ctx context.Context, client *kgo.Client, name string, commit kgo.TransactionEndTry) error {
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	for n := range 5 {
		record := kgo.StringRecord(name + strconv.Itoa(n))
		record.Partition = int32(n % 2)
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	return client.EndTransaction(ctx, commit)
}

func transactions(ctx context.Context, bootstrap, id, topic string) {
	first := producer(bootstrap, id, topic)
	must(write(ctx, first, "a", kgo.TryCommit))
	must(write(ctx, first, "b", kgo.TryAbort))
	must(write(ctx, first, "c", kgo.TryCommit))
	must(write(ctx, first, "d", kgo.TryAbort))
	second := producer(bootstrap, id, topic)
	must(write(ctx, second, "e", kgo.TryCommit))
	err := write(ctx, first, "fenced", kgo.TryCommit)
	if !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
		must(fmt.Errorf("the first instance was not fenced: %v", err))
	}
}

func copies(ctx context.Context, bootstrap, id, source, sink, group string, records int) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.TransactionalID(id),
		kgo.DefaultProduceTopic(sink),
		kgo.ConsumerGroup(group),
		kgo.SessionTimeout(10*time.Second),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	must(err)
	defer session.Close()
	copied := 0
	for round := 0; records < 0 || copied < records; round++ {
		fetched := session.PollRecords(ctx, 100)
		must(fetched.Err())
		must(session.Begin())
		for _, record := range fetched.Records() {
			session.Produce(ctx, kgo.SliceRecord(record.Value), nil)
		}
		must(session.Client().Flush(ctx)) // so that also what is aborted is in the log
		// An abort puts the session back to what it committed last.
		commit := kgo.TransactionEndTry(round%3 != 1)
		committed, err := session.End(ctx, commit)
		must(err)
		if committed {
			copied += fetched.NumRecords()
		}
	}
	fmt.Println(copied)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	switch words := os.Args[1:]; words[0] {
	case "transactions":
		transactions(ctx, words[1], words[2], words[3])
	case "copy":
		records, err := strconv.Atoi(words[6])
		must(err)
		copies(ctx, words[1], words[2], words[3], words[4], words[5], records)
	case "secured":
		secured(ctx, words[1], words[2], words[3], words[4:])
	}
}
