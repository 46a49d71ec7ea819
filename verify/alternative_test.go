package verify

import (
	"reflect"
	"slices"
	"testing"
)

// A scheme that decides has no switch for a hypothesis: all that no configuration can set is what
// Check makes of the settings. What a hypothesis alone does is in a type of its own.
func TestASchemeHasOnlySettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   any
		made []string
	}{
		{HMAC{}, []string{"once", "plan", "err"}},
		{RFC9421{}, []string{"once", "rules", "engine", "err"}},
		{JWT{}, nil}, {Coverage{}, nil}, {Pinned{}, nil}, {Static{}, nil},
	} {
		var hidden []string
		for field := range reflect.TypeOf(c.of).Fields() {
			if !field.IsExported() {
				hidden = append(hidden, field.Name)
			}
		}
		if !slices.Equal(hidden, c.made) {
			t.Errorf("%T has the unexported fields %q, and %q is what Check makes", c.of, hidden, c.made)
		}
	}
}

func TestACopyOfASchemeHasAllSettings(t *testing.T) {
	t.Parallel()
	h, s := new(HMAC), new(RFC9421)
	fill(t, reflect.ValueOf(h).Elem())
	fill(t, reflect.ValueOf(s).Elem())
	for copied, of := range map[any]any{h.WithSecrets(h.Secrets): h, s.WithCoverage(s.Coverage): s} {
		got := reflect.ValueOf(copied).Elem()
		for field, want := range reflect.ValueOf(of).Elem().Fields() {
			is := got.FieldByName(field.Name)
			same := field.Type.Kind() == reflect.Func && is.Pointer() == want.Pointer()
			if field.IsExported() && !same && !reflect.DeepEqual(is.Interface(), want.Interface()) {
				t.Errorf("%s of %T is not copied", field.Name, of)
			}
		}
	}
}

// fill sets every exported field to a value that is not its zero one.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for field, value := range v.Fields() {
		if !field.IsExported() {
			continue
		}
		switch of := field.Type; of.Kind() {
		case reflect.String:
			value.SetString("x")
		case reflect.Bool:
			value.SetBool(true)
		case reflect.Int, reflect.Int64:
			value.SetInt(1)
		case reflect.Slice:
			value.Set(reflect.MakeSlice(of, 1, 1))
		case reflect.Map:
			value.Set(reflect.MakeMap(of))
		case reflect.Func:
			value.Set(reflect.MakeFunc(of, func([]reflect.Value) []reflect.Value { return nil }))
		case reflect.Interface:
			value.Set(reflect.ValueOf(StaticKeys()))
		case reflect.Struct:
			fill(t, value)
		default:
			t.Fatalf("%s is of another kind", field.Name)
		}
		if value.IsZero() {
			t.Fatalf("%s is not set", field.Name)
		}
	}
}
