package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The options of one way in: `protocol`, `mechanism`, `user`, `password`, `token`, `ca` and `certificate` (PEM files).
func options(words []string) ([]kgo.Opt, error) {
	given := map[string]string{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		given[key] = value
	}
	var found []kgo.Opt
	if strings.HasSuffix(given["protocol"], "SSL") {
		pem, err := os.ReadFile(given["ca"])
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		config := &tls.Config{RootCAs: roots}
		if file := given["certificate"]; file != "" {
			certificate, err := tls.LoadX509KeyPair(file, file)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{certificate}
		}
		found = append(found, kgo.DialTLSConfig(config))
	}
	user, password := given["user"], given["password"]
	switch given["mechanism"] {
	case "":
	case "PLAIN":
		found = append(found, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		found = append(found, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		found = append(found, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	case "OAUTHBEARER":
		found = append(found, kgo.SASL(oauth.Auth{Token: given["token"]}.AsMechanism()))
	default:
		return nil, errors.New("no mechanism " + given["mechanism"])
	}
	return found, nil
}

// Produces a value to partition 0 of a topic, and reads the partition until it comes.
func secured(ctx context.Context, bootstrap, topic, value string, words []string) {
	how, err := options(words)
	must(err)
	how = append(how,
		kgo.SeedBrokers(bootstrap),
		kgo.DefaultProduceTopic(topic),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
	)
	client, err := kgo.NewClient(how...)
	must(err)
	defer client.Close()
	must(client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
	for {
		fetched := client.PollFetches(ctx)
		must(fetched.Err())
		for _, record := range fetched.Records() {
			if string(record.Value) == value {
				fmt.Println("OK")
				return
			}
		}
	}
}
