package verify

// testKeys names by fingerprint the keys that are published for tests: their private halves are public.
var testKeys = map[string]string{
	// RFC 9421 appendix B.1
	"c73eecd318bd3813f2402a660d8a90010ca35d609d19377d5ee7af200713229f": "test-key-rsa",
	"72859cbaf21a0b398b1f25712bbed148b1d85a0c6b824176eb306405caa6f0b2": "test-key-rsa-pss",
	"55f96361b78cbb84f1fc604b0718e82bd91abb46d8fc25ae871b35fbbf8b7974": "test-key-ecc-p256",
	"34571606cb7a0d71be377e671ddcccae2a169ed7733598214129231cd30c4a3c": "test-key-ed25519",
	"586642c6a191a9281dc595811486c27f4fc49722103f98d07227aa72c6c047a4": "test-shared-secret",
	"17c9e7cbd01ca1718a8e7669cb5d6f90b06e092a2f4d7d8cb3e6904856cd3e22": "test-shared-secret, not decoded from base64",
}
