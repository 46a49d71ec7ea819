package strictjson

import (
	"fmt"
	"strings"
	"testing"
)

func TestObjectsHaveAtMost256Members(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{maxMembers: true, maxMembers + 1: false} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":1`, i)
		}
		if o, err := ParseObject([]byte("{" + b.String()[1:] + "}")); (err == nil) != ok || ok && len(o) != n {
			t.Errorf("%d members: %d, %v", n, len(o), err)
		}
	}
}
