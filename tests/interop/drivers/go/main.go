// The driver of franz-go. See ../README.md for what goes in and out.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type header struct {
	name  string
	value []byte
}

// A header is a pair in JSON.
func (h *header) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.name, &h.value})
}

type record struct {
	Partition int32    `json:"partition"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
	Timestamp *int64   `json:"timestamp"`
}

type step struct {
	Do         string            `json:"do"`
	Topic      string            `json:"topic"`
	Codec      string            `json:"codec"`
	Acks       string            `json:"acks"`
	PauseMs    int64             `json:"pause_ms"`
	Records    []record          `json:"records"`
	Timestamps json.RawMessage   `json:"timestamps"`
	From       map[string]int64  `json:"from"`
	Partition  int32             `json:"partition"`
	Partitions int32             `json:"partitions"`
	Before     int64             `json:"before"`
	Configs    map[string]string `json:"configs"`
	Names      []string          `json:"names"`
}

type result map[string]any

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{"all": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck()}

func say(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func produce(ctx context.Context, bootstrap string, s step) (result, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[s.Codec]),
		kgo.RequiredAcks(acks[s.Acks]),
		kgo.ProducerBatchMaxBytes(1_000_012),
		kgo.ProducerLinger(5 * time.Millisecond),
	}
	if s.Acks != "all" {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var failed []error
	for index, one := range s.Records {
		made := &kgo.Record{Topic: s.Topic, Partition: one.Partition, Key: one.Key, Value: one.Value}
		if one.Timestamp != nil {
			made.Timestamp = time.UnixMilli(*one.Timestamp)
		}
		for _, h := range one.Headers {
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
		}
		if s.PauseMs > 0 && index == 0 {
			if err := client.ProduceSync(ctx, made).FirstErr(); err != nil {
				return nil, err
			}
			say(result{"first": true})
		} else {
			client.Produce(ctx, made, func(_ *kgo.Record, err error) {
				if err != nil {
					failed = append(failed, err)
				}
			})
		}
		time.Sleep(time.Duration(s.PauseMs) * time.Millisecond)
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	return result{"produced": len(s.Records)}, errors.Join(failed...)
}

type tally struct {
	hash               hash.Hash
	count, first, last int64
}

func (t *tally) bytes(data []byte) {
	size := int32(-1)
	if data != nil {
		size = int32(len(data))
	}
	must(binary.Write(t.hash, binary.BigEndian, size))
	t.hash.Write(data)
}

func (t *tally) add(one *kgo.Record, withTimestamps bool) {
	t.bytes(one.Key)
	t.bytes(one.Value)
	must(binary.Write(t.hash, binary.BigEndian, int32(len(one.Headers))))
	for _, h := range one.Headers {
		t.bytes([]byte(h.Key))
		t.bytes(h.Value)
	}
	stamp := int64(0)
	if withTimestamps {
		stamp = one.Timestamp.UnixMilli()
	}
	must(binary.Write(t.hash, binary.BigEndian, stamp))
	if t.count == 0 {
		t.first = one.Offset
	}
	t.last = one.Offset
	t.count++
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func consume(ctx context.Context, bootstrap string, admin *kadm.Client, s step) (result, error) {
	begins, err := admin.ListStartOffsets(ctx, s.Topic)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, s.Topic)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(begins.Error(), ends.Error()); err != nil {
		return nil, err
	}
	withTimestamps := bytes.Equal(s.Timestamps, []byte("true"))
	tallies := map[int32]*tally{}
	next := map[int32]int64{}
	from := map[int32]kgo.Offset{}
	begins.Each(func(begin kadm.ListedOffset) {
		offset, given := s.From[strconv.Itoa(int(begin.Partition))]
		if !given {
			offset = begin.Offset
		}
		tallies[begin.Partition] = &tally{hash: sha256.New(), first: -1, last: -1}
		next[begin.Partition] = offset
		from[begin.Partition] = kgo.NewOffset().At(offset)
	})
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.Topic: from}),
		kgo.FetchMaxWait(20*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	atEnd := func() bool {
		reached := true
		ends.Each(func(end kadm.ListedOffset) { reached = reached && next[end.Partition] >= end.Offset })
		return reached
	}
	for !atEnd() {
		fetches := client.PollFetches(limited)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			tallies[one.Partition].add(one, withTimestamps)
			next[one.Partition] = one.Offset + 1
		})
	}
	report := result{}
	for partition, found := range tallies {
		report[strconv.Itoa(int(partition))] = result{
			"count": found.count, "first": found.first, "last": found.last,
			"sha256": hex.EncodeToString(found.hash.Sum(nil)),
		}
	}
	return report, nil
}

func administer(ctx context.Context, admin *kadm.Client, s step) (result, error) {
	switch s.Do {
	case "create":
		configs := map[string]*string{}
		for name, value := range s.Configs {
			configs[name] = kadm.StringPtr(value)
		}
		_, err := admin.CreateTopic(ctx, s.Partitions, 1, configs, s.Topic)
		return result{}, err
	case "delete":
		_, err := admin.DeleteTopic(ctx, s.Topic)
		return result{}, err
	case "list":
		listed, err := admin.ListTopics(ctx)
		if err != nil {
			return nil, err
		}
		names := listed.Names()
		sort.Strings(names)
		return result{"topics": names}, listed.Error()
	case "describe":
		found, err := admin.Metadata(ctx, s.Topic)
		if err != nil {
			return nil, err
		}
		topic := found.Topics[s.Topic]
		leaders := map[int32]bool{}
		for _, partition := range topic.Partitions {
			leaders[partition.Leader] = true
		}
		return result{
			"partitions": len(topic.Partitions), "leaders": len(leaders), "brokers": len(found.Brokers),
			"has_id": topic.ID != kadm.TopicID{},
		}, topic.Err
	case "grow":
		grown, err := admin.UpdatePartitions(ctx, int(s.Partitions), s.Topic)
		return result{}, errors.Join(err, grown.Error())
	case "alter":
		var changes []kadm.AlterConfig
		for name, value := range s.Configs {
			changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: kadm.StringPtr(value)})
		}
		altered, err := admin.AlterTopicConfigs(ctx, changes, s.Topic)
		if err == nil {
			err = altered[0].Err
		}
		return result{}, err
	case "configs":
		found, err := admin.DescribeTopicConfigs(ctx, s.Topic)
		if err != nil {
			return nil, err
		}
		values := result{}
		for _, config := range found[0].Configs {
			for _, name := range s.Names {
				if config.Key == name {
					values[name] = config.MaybeValue()
				}
			}
		}
		return values, found[0].Err
	case "trim":
		offsets := kadm.Offsets{}
		offsets.AddOffset(s.Topic, s.Partition, s.Before, -1)
		trimmed, err := admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		one, _ := trimmed.Lookup(s.Topic, s.Partition)
		return result{"begin": one.LowWatermark}, one.Err
	case "offsets":
		return offsetsAt(ctx, admin, s)
	case "fails":
		_, again := admin.CreateTopic(ctx, 1, 1, nil, s.Topic)
		_, unknown := admin.DeleteTopic(ctx, "nowhere")
		_, illegal := admin.CreateTopic(ctx, 1, 1, nil, "a b")
		refusals := result{
			"create again": refusal(again), "delete unknown": refusal(unknown), "illegal name": refusal(illegal),
		}
		return result{"errors": refusals}, nil
	}
	return nil, fmt.Errorf("no such step: %q", s.Do)
}

func refusal(err error) string {
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return refused.Message
	}
	return fmt.Sprint(err)
}

func offsetsAt(ctx context.Context, admin *kadm.Client, s step) (result, error) {
	var timestamps []int64
	if err := json.Unmarshal(s.Timestamps, &timestamps); err != nil {
		return nil, err
	}
	begins, err := admin.ListStartOffsets(ctx, s.Topic)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, s.Topic)
	if err != nil {
		return nil, err
	}
	begin, _ := begins.Lookup(s.Topic, s.Partition)
	end, _ := ends.Lookup(s.Topic, s.Partition)
	at := []int64{}
	for _, timestamp := range timestamps {
		found, err := admin.ListOffsetsAfterMilli(ctx, timestamp, s.Topic)
		if err != nil {
			return nil, err
		}
		one, _ := found.Lookup(s.Topic, s.Partition)
		at = append(at, one.Offset)
	}
	return result{"begin": begin.Offset, "end": end.Offset, "at": at}, nil
}

func run() error {
	var scenario struct {
		Bootstrap string `json:"bootstrap"`
		Steps     []step `json:"steps"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&scenario); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(scenario.Bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, s := range scenario.Steps {
		var done result
		switch s.Do {
		case "produce":
			done, err = produce(ctx, scenario.Bootstrap, s)
		case "consume":
			done, err = consume(ctx, scenario.Bootstrap, admin, s)
		default:
			done, err = administer(ctx, admin, s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Do, err)
		}
		say(done)
	}
	return nil
}

func main() {
	does := run
	if len(os.Args) > 1 && os.Args[1] == "member" {
		does = member
	}
	if err := does(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
