// Run with: pk test -- go test ./...
package example

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAnOrderIsRead(t *testing.T) {
	url := os.Getenv("KAFKA_BOOTSTRAP_SERVERS")
	if url == "" {
		t.Fatal("run me with: pk test -- go test ./...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	// The broker's next two answers are that it does not lead: the client asks who does, and tries again.
	pk := os.Getenv("PK")
	if pk == "" {
		pk = "pk"
	}
	fault := exec.CommandContext(ctx, pk, "test", "faults", "add", "fail", "Produce",
		"--error", "NOT_LEADER_OR_FOLLOWER", "--times", "2")
	if said, err := fault.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}

	client, err := kgo.NewClient(kgo.SeedBrokers(url), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: "orders", Value: []byte("1 book")}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatal(err)
		}
		for _, record := range fetches.Records() {
			if string(record.Value) != "1 book" {
				t.Fatalf("read %q", record.Value)
			}
			return
		}
	}
}
