package deferred

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/queue"
)

const (
	duplicateWindow = 2 * time.Minute
	// largestMessage is the size of a message with one job at all its limits.
	largestMessage = queue.MaxPayloadBytes + queue.MaxHeaderBytes + 16<<10
)

// settings returns the configurations with which the two streams are created.
func settings(o Options) (deferred, dead jetstream.StreamConfig) {
	name, s := strings.ToUpper(o.Prefix), newSubjects(o.Prefix)
	deferred = jetstream.StreamConfig{
		Name: name + "_DEFERRED", Subjects: []string{s.deferred + ">"},
		Description: "jobs of Penstock that wait for room in their queue",
		Retention:   jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		Replicas: o.Replicas,
		MaxBytes: o.MaxBytes, MaxMsgs: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1, AllowDirect: true,
		Duplicates: duplicateWindow,
	}
	dead = deferred
	dead.Name, dead.Subjects, dead.Description = name+"_DEAD", []string{s.dead + ">"}, "jobs of Penstock that could "+
		"not come back to their queue"
	dead.MaxBytes = max(MinMaxBytes, o.MaxBytes/10)
	return deferred, dead
}

// differences lists the settings by which an existing stream would lose or refuse jobs, each as "field is ..., needs
// ...". Larger values than configured are fine, and so are fewer bytes: a full stream reports that.
func differences(has, wants jetstream.StreamConfig, maxPayload int64) []string {
	var d []string
	differs := func(bad bool, field string, is, needs any) {
		if bad {
			d = append(d, fmt.Sprintf("%s is %v, needs %v", field, is, needs))
		}
	}
	differs(len(has.Subjects) != 1 || has.Subjects[0] != wants.Subjects[0], "subjects", has.Subjects, wants.Subjects)
	differs(has.Storage != wants.Storage, "storage", has.Storage, wants.Storage)
	differs(has.Retention != wants.Retention, "retention", has.Retention, wants.Retention)
	differs(has.Discard != wants.Discard, "discard", has.Discard, wants.Discard)
	differs(has.Replicas < wants.Replicas, "num_replicas", has.Replicas, wants.Replicas)
	differs(has.MaxAge != 0, "max_age", has.MaxAge, "none")
	differs(has.MaxMsgsPerSubject > 0, "max_msgs_per_subject", has.MaxMsgsPerSubject, "none")
	largest := min(maxPayload, largestMessage)
	differs(has.MaxMsgSize > 0 && int64(has.MaxMsgSize) < largest, "max_msg_size", has.MaxMsgSize,
		fmt.Sprintf("none, or %d", largest))
	differs(!has.AllowDirect, "allow_direct", has.AllowDirect, true)
	differs(has.NoAck, "no_ack", has.NoAck, false)
	differs(has.Sealed, "sealed", has.Sealed, false)
	differs(has.DenyPurge, "deny_purge", has.DenyPurge, false)
	differs(has.Mirror != nil, "mirror", "set", "none")
	differs(has.SubjectTransform != nil, "subject_transform", "set", "none")
	differs(has.SubjectDeleteMarkerTTL != 0, "subject_delete_marker_ttl", has.SubjectDeleteMarkerTTL, "none")
	differs(has.AllowMsgCounter, "allow_msg_counter", has.AllowMsgCounter, false)
	differs(has.PersistMode != jetstream.DefaultPersistMode, "persist_mode", has.PersistMode,
		jetstream.DefaultPersistMode)
	return d
}
