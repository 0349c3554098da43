// What the three programs write and expect to read: the same records as every other language's.
package expected

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	Count      = 100
	InGroup    = 400
	Partitions = 4
	FirstMs    = 1_700_000_000_000
	Wait       = 60 * time.Second
)

// Row is a record, in a form that can be compared.
type Row struct {
	Key, Value  []byte
	Header      string
	TimestampMs int64
}

// Rows are the records of the scenario "records".
func Rows() []Row {
	rows := make([]Row, Count)
	for n := range rows {
		rows[n] = Row{Header: fmt.Sprint(n), TimestampMs: FirstMs + int64(n)}
		if n%10 != 0 {
			rows[n].Key = fmt.Appendf(nil, "key %d", n)
		}
		if n%10 != 5 {
			rows[n].Value = []byte(strings.Repeat(fmt.Sprintf("value %d ", n), 20))
		}
	}
	return rows
}

// Must ends the program with the error, if there is one.
func Must(err error) {
	if err != nil {
		fmt.Println(strings.Join(strings.Fields(err.Error()), " "))
		os.Exit(1)
	}
}

// Check ends the program where the two differ.
func Check(name string, found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		Must(fmt.Errorf("%s: %v instead of %v", name, found, wanted))
	}
}

// Until waits for a condition.
func Until(what string, done func() bool) {
	for limit := time.Now().Add(Wait); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			Must(fmt.Errorf("%s: not within %s", what, Wait))
		}
	}
}

// Values is a set that several members of a group fill.
type Values struct {
	lock sync.Mutex
	all  map[string]bool
}

func (v *Values) Add(value []byte) {
	v.lock.Lock()
	defer v.lock.Unlock()
	if v.all == nil {
		v.all = map[string]bool{}
	}
	v.all[string(value)] = true
}

func (v *Values) Clear() {
	v.lock.Lock()
	defer v.lock.Unlock()
	v.all = nil
}

// Sorted is what it holds, in order.
func (v *Values) Sorted() []string {
	v.lock.Lock()
	defer v.lock.Unlock()
	found := []string{}
	for value := range v.all {
		found = append(found, value)
	}
	slices.Sort(found)
	return found
}

// Member is a member of a group of one topic, which reads into Values all the time.
type Member interface {
	// Held is how many partitions it has.
	Held() int
	Commit()
	Close()
}

// Group is the scenario of this name, for any client.
func Group(join func(*Values) Member, produce func(partition int, value string)) {
	values := &Values{}
	first := join(values)
	Until("all partitions, all records", func() bool {
		return first.Held() == Partitions && len(values.Sorted()) == InGroup
	})
	first.Commit()
	second := join(values)
	Until("two partitions each", func() bool { return first.Held() == 2 && second.Held() == 2 })
	values.Clear()
	more := []string{}
	for n := range Partitions {
		more = append(more, fmt.Sprintf("more %d", n))
		produce(n, more[n])
	}
	Until("more records", func() bool { return slices.Equal(values.Sorted(), more) })
	first.Commit()
	second.Commit()
	second.Close()
	Until("all partitions again", func() bool { return first.Held() == Partitions })
	first.Close()
	produce(0, "last")
	values.Clear()
	third := join(values)
	Until("the last record", func() bool { return len(values.Sorted()) > 0 })
	Check("after the commit", values.Sorted(), []string{"last"})
	third.Commit()
	third.Close()
}
