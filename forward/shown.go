package forward

import "net/url"

// placeholder stands for what is not shown.
const placeholder = "<secret>"

// Shown is the URL of a target as people may see it: scheme and host. Receivers of many services, such as webhooks of
// chats, have their secret in the path or the query, so that everything behind the host but a bare "/" is shown as
// "/<secret>", and credentials before it as "<secret>@". What is no URL of http or https is "<secret>" as a whole.
// Nothing that names a target shows its URL in another way.
func Shown(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return placeholder
	}
	user, rest := "", u.EscapedPath()
	if u.User != nil {
		user = placeholder + "@"
	}
	if rest != "" && rest != "/" || u.RawQuery != "" || u.Fragment != "" {
		rest = "/" + placeholder
	}
	return u.Scheme + "://" + user + u.Host + rest
}
