// One member of a consumer group. See ../README.md for what goes in and out.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type memberConfig struct {
	Bootstrap   string  `json:"bootstrap"`
	Group       string  `json:"group"`
	Topic       string  `json:"topic"`
	Name        string  `json:"name"`
	Assignor    string  `json:"assignor"`
	Instance    *string `json:"instance"`
	SessionMs   int64   `json:"session_ms"`
	HeartbeatMs int64   `json:"heartbeat_ms"`
	Commits     string  `json:"commits"`
}

type order struct {
	Do        string `json:"do"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// What a member owns, told whenever it changes. The client calls back from goroutines of its own.
type ownership struct {
	mutex      sync.Mutex
	partitions map[int32]bool
}

func (o *ownership) change(partitions []int32, owned bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for _, partition := range partitions {
		if owned {
			o.partitions[partition] = true
		} else {
			delete(o.partitions, partition)
		}
	}
	all := []int32{}
	for partition := range o.partitions {
		all = append(all, partition)
	}
	slices.Sort(all)
	say(result{"owned": all})
}

func sayFailed(what string, err error) {
	say(result{"failed": what, "error": err.Error()})
}

func member() error {
	input := bufio.NewScanner(os.Stdin)
	input.Scan()
	var config memberConfig
	if err := json.Unmarshal(input.Bytes(), &config); err != nil {
		return err
	}
	owned := ownership{partitions: map[int32]bool{}}
	commits := config.Commits == "each"
	options := []kgo.Opt{
		kgo.SeedBrokers(config.Bootstrap),
		kgo.ClientID(config.Name),
		kgo.ConsumerGroup(config.Group),
		kgo.ConsumeTopics(config.Topic),
		kgo.Balancers(balancers[config.Assignor]),
		kgo.SessionTimeout(time.Duration(config.SessionMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(config.HeartbeatMs) * time.Millisecond),
		kgo.RebalanceTimeout(20 * time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			owned.change(assigned[config.Topic], true)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
			if commits {
				if err := client.CommitUncommittedOffsets(ctx); err != nil {
					sayFailed("commit", err)
				}
			}
			owned.change(revoked[config.Topic], false)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			sayFailed("ownership", errors.New("lost"))
			owned.change(lost[config.Topic], false)
		}),
	}
	if config.Instance != nil {
		options = append(options, kgo.InstanceID(*config.Instance))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	orders := make(chan order, 16)
	go func() {
		for input.Scan() {
			var one order
			must(json.Unmarshal(input.Bytes(), &one))
			orders <- one
		}
		orders <- order{Do: "leave"}
	}()
	for {
		select {
		case one := <-orders:
			if one.Do == "leave" {
				client.CloseAllowingRebalance()
				return nil
			}
			if err := carryOut(client, config.Topic, one); err != nil {
				return err
			}
		default:
			if err := deliver(client, commits); err != nil {
				return err
			}
		}
	}
}

func deliver(client *kgo.Client, commits bool) error {
	limited, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	// What was polled is told of and committed before partitions can move on.
	fetches := client.PollRecords(limited, 50)
	defer client.AllowRebalance()
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			sayFailed("poll", failed.Err)
		}
	}
	fetches.EachPartition(func(one kgo.FetchTopicPartition) {
		if len(one.Records) == 0 {
			return
		}
		hashes := []string{}
		for _, record := range one.Records {
			found := tally{hash: sha256.New()}
			found.add(record, true)
			hashes = append(hashes, hex.EncodeToString(found.hash.Sum(nil)))
		}
		say(result{"partition": one.Partition, "offset": one.Records[0].Offset, "hashes": hashes})
	})
	if commits && fetches.NumRecords() > 0 {
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			var refused *kerr.Error
			if !errors.As(err, &refused) && !errors.Is(err, context.Canceled) {
				return err
			}
			sayFailed("commit", err)
		}
	}
	return nil
}

func carryOut(client *kgo.Client, topic string, one order) error {
	partitions := map[string][]int32{topic: {one.Partition}}
	switch one.Do {
	case "commit":
		if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
			return err
		}
	case "commit async":
		client.CommitOffsets(context.Background(), client.UncommittedOffsets(),
			func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
				if err = errors.Join(err, refusals(answer)); err != nil {
					sayFailed(one.Do, err)
				} else {
					say(result{"done": one.Do})
				}
			})
		return nil
	case "seek":
		client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {one.Partition: {Epoch: -1, Offset: one.Offset}}})
	case "pause":
		client.PauseFetchPartitions(partitions)
	case "resume":
		client.ResumeFetchPartitions(partitions)
	default:
		return fmt.Errorf("no such order: %q", one.Do)
	}
	say(result{"done": one.Do})
	return nil
}

func refusals(answer *kmsg.OffsetCommitResponse) error {
	if answer == nil {
		return nil
	}
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
