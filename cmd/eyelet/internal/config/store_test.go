package config

import "testing"

func TestStoreOptions(t *testing.T) {
	t.Parallel()
	set, err := Source{}.Parse("eyelet.yaml", []byte("limits: {backlog_events: 3, backlog_bytes: 2MiB, "+
		"min_free: 1GiB}\n"))
	if err != nil {
		t.Fatal(err)
	}
	none, err := Source{}.Parse("eyelet.yaml", []byte("limits: {backlog_events: 0}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if o := none.storeOptions(nil); o.MaxBacklogRecords >= 0 {
		t.Errorf("backlog_events: 0 is %d", o.MaxBacklogRecords)
	}
	if o := set.storeOptions(nil); o.MaxBacklogRecords != 3 || o.MaxBacklogBytes != 2<<20 || o.MinFree != 1<<30 {
		t.Errorf("%+v", o)
	}
}
