package tenants

import (
	"context"
	"errors"
	"strconv"

	"github.com/eyelet-dev/eyelet/dedup"
)

func (c *Cache) noteOf(name string) dedup.Key {
	return dedup.Key{Endpoint: c.Producer, Space: dedup.SpaceTenant, ID: name}
}

// raise changes the generation of a tenant that was deleted, unless another receiver did so since.
func (c *Cache) raise(ctx context.Context, name string, from int) (generation int, err error) {
	err = c.store.ChangeNote(ctx, c.noteOf(name), func(text string) (string, error) {
		stored, err := parseGeneration(text)
		generation = max(stored, from+1)
		return strconv.Itoa(generation), err
	})
	return generation, err
}

// generation reads that of a tenant.
func (c *Cache) generation(ctx context.Context, name string) (int, error) {
	note, err := c.store.Note(ctx, c.noteOf(name))
	if err != nil {
		return 0, err
	}
	return parseGeneration(note.Text)
}

// generations reads those of all tenants.
func (c *Cache) generations(ctx context.Context) (map[string]int, error) {
	all := map[string]int{}
	for note, err := range c.store.Notes(ctx, dedup.SpaceTenant) {
		if err == nil && note.Key.Endpoint == c.Producer {
			all[note.Key.ID], err = parseGeneration(note.Text)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func parseGeneration(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, errors.New("the generation of a tenant in the store is not a number")
	}
	return n, nil
}
