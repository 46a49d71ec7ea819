package verify

// Key is one key of a producer. The constructors check its strength.
type Key struct {
	// ID is the name under which requests refer to the key.
	ID string
	// Alg is the only algorithm that the key is used with.
	Alg Alg
	// Principal is the identity that the key stands for; empty is the producer itself.
	Principal string
}
