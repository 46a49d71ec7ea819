package receiver

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
)

// cloudEventData returns what is to be decoded of a payload, and its media type. That is the payload itself,
// except for a CloudEvent in the structured JSON format, alone or out of a batch: its data (CloudEvents JSON
// format 1.0.2 section 3.1). An event without data decodes like JSON null.
func cloudEventData(contentType string, body []byte) (string, []byte, error) {
	switch media, _, _ := mime.ParseMediaType(contentType); media {
	case "application/cloudevents+json", "application/cloudevents-batch+json":
	default:
		return contentType, body, nil
	}
	var members map[string]json.RawMessage // by their exact names, which struct fields are not
	if err := json.Unmarshal(body, &members); err != nil {
		return "", nil, err
	}
	encoded, binary := members["data_base64"]
	data, plain := members["data"]
	switch {
	case binary && plain:
		return "", nil, errors.New("the CloudEvent has both data and data_base64")
	case binary:
		return base64Data(members["datacontenttype"], encoded)
	case plain:
		return "application/json", data, nil
	}
	return "application/json", []byte("null"), nil
}

func base64Data(contentType, encoded json.RawMessage) (string, []byte, error) {
	var media, text string
	if contentType != nil {
		if err := json.Unmarshal(contentType, &media); err != nil {
			return "", nil, err
		}
	}
	if err := json.Unmarshal(encoded, &text); err != nil {
		return "", nil, err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	return media, data, err
}
