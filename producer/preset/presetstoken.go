package preset

// tokenPresets are the presets with certificates and tokens, and CloudEvents.
func tokenPresets() []Preset {
	google := []string{"audience", "email", "issuers", "jwks_url", "algs"}
	return []Preset{
		{"aws-sns", "RSA signature in the body, certificate of SNS", "body MessageId", "15 s", "2xx; an hour, drops on 4xx but 429",
			[]string{"topics", "min_version", "check_chain", "roots"}, awsSNS},
		{"azure-event-grid", "key in the URL or a header, or an Entra token", "each event's id", "30 s", "200-204; 24 hours",
			[]string{"query", "header", "value", "secrets", "audience", "issuers", "app_ids", "jwks_url", "algs", "origins", "rate", "topics"},
			AzureEventGrid},
		{"cloudevents", "bearer token", "Idempotency-Key, or source and id", "", "2xx; the sender's matter",
			[]string{"bearer", "secrets", "batch", "origins", "rate"}, CloudEvents},
		{"google-eventarc", "Google's token: audience and service account", "CloudEvent source and id, or message id", "",
			"102, 200, 201, 202, 204; 24 hours", google, googleEventarc},
		{"google-pubsub", "Google's token: audience and service account", "message.messageId", "", "102, 200, 201, 202, 204; 24 hours",
			google, googlePubSub},
		{"openbanking-uk", "the body is a token signed with PS256", "jti", "", "202; the bank's matter",
			[]string{"audience", "issuers", "jwks_url", "algs"}, OpenBankingUK},
		{"paypal", "RSA signature over id, time, webhook id and CRC-32", "body id", "", "2xx; 25 times in 3 days", []string{"webhook_id", "roots"}, payPal},
		{"yandex-pay", "the body is a token signed with ES256", "order, event, status and time", "", "200 only; 24 hours",
			[]string{"merchant_id", "jwks_url", "algs"}, yandexPay},
	}
}
