// Signs deliveries with Node libraries: node senders.mjs SENDER < deliveries. Standard input is a
// JSON array of deliveries, as in node_test.go; standard output is a line of JSON for each.
// Where a library can only verify, the delivery is signed here by the documented formula, and the
// library must accept it.
import crypto from 'node:crypto';

const hmac = (secret, text, encoding = 'hex', hash = 'sha256') =>
  crypto.createHmac(hash, secret).update(text).digest(encoding);

function agree(accepted) {
  if (accepted === false) throw new Error('the library does not accept the signature of the formula');
}

// inTime calls a verifier that compares the signed time with the clock.
const inTime = (d, verify) => (d.stale || d.future ? true : verify());

const form = 'application/x-www-form-urlencoded';
const json = { 'Content-Type': 'application/json' };

const senders = {
  async stripe(d) {
    const { default: Stripe } = await import('stripe');
    // Indented, and with characters beyond ASCII: the bytes are signed as they are.
    const payload = JSON.stringify({ id: d.id, object: 'event', type: 'invoice.paid', city: 'Berlin ü ☃' }, null, 2);
    const signature = new Stripe('sk_test_1').webhooks
      .generateTestHeaderString({ payload, secret: d.secret, timestamp: d.at });
    return { header: { ...json, 'Stripe-Signature': signature }, body: payload };
  },

  async svix(d) {
    const { Webhook } = await import('svix');
    return standard(d, Webhook, 'svix');
  },

  async standardwebhooks(d) {
    const { Webhook } = await import('standardwebhooks');
    return standard(d, Webhook, 'webhook');
  },

  async openai(d) {
    const { default: OpenAI } = await import('openai');
    const { Webhook } = await import('standardwebhooks');
    const m = standard(d, Webhook, 'webhook');
    await inTime(d, () => new OpenAI({ apiKey: 'sk-1' }).webhooks.verifySignature(m.body, m.header, d.secret));
    return m;
  },

  async gitlab(d) {
    const { Webhook } = await import('standardwebhooks');
    const m = standard(d, Webhook, 'webhook');
    m.header['X-Gitlab-Event'] = 'Push Hook';
    return m;
  },

  octokit: (d) => github(d, 'application/json', (text) => text),

  'octokit-form': (d) => github(d, form,
    (text) => new URLSearchParams({ payload: text }).toString()),

  slack: (d) => slack(d, 'application/json',
    JSON.stringify({ type: 'event_callback', event_id: d.id, event: { type: 'message', text: 'Berlin' } })),

  'slack-command': (d) => slack(d, form, new URLSearchParams({
    team_id: 'T17', channel_id: 'C17', user_id: 'U17', command: '/tea', text: 'Berlin', trigger_id: `17.${d.id}`,
  }).toString()),

  'slack-interaction': (d) => slack(d, form, new URLSearchParams({ payload: JSON.stringify({
    type: 'block_actions', user: { id: 'U17' }, trigger_id: `17.${d.id}`, actions: [{ action_id: 'a', value: 'Berlin' }],
  }) }).toString()),

  twilio: (d) => twilioForm(d, { query: 'a=1&b=%C3%BC', body: 'Berlin + ü' }),
  'twilio-repeated': (d) => twilioForm(d, { body: ['Berlin', 'Berlin', 'A'] }),
  'twilio-port': (d) => twilioForm(d, { url: d.url.replace('hooks.example', 'hooks.example:443'), body: 'Berlin' }),

  async 'twilio-get'(d) {
    const { default: twilio } = await import('twilio');
    const query = new URLSearchParams({ CallSid: d.id, CallStatus: 'completed', FromCity: 'Berlin' }).toString();
    const signature = twilio.getExpectedTwilioSignature(d.secret, `${d.url}?${query}`, {});
    return { method: 'GET', query, header: { 'X-Twilio-Signature': signature, 'I-Twilio-Idempotency-Token': d.id } };
  },

  async 'twilio-no-token'(d) {
    const m = await twilioForm(d, { body: 'Berlin' });
    delete m.header['I-Twilio-Idempotency-Token'];
    return m;
  },

  async 'twilio-unsigned'(d) {
    const m = await twilioForm(d, { body: 'Berlin' });
    delete m.header['X-Twilio-Signature'];
    return m;
  },

  async 'twilio-json'(d) {
    const { default: twilio } = await import('twilio');
    const body = JSON.stringify({ sid: d.id, city: 'Berlin' });
    const query = 'bodySHA256=' + twilio.getExpectedBodyHash(body);
    const signature = twilio.getExpectedTwilioSignature(d.secret, `${d.url}?${query}`, {});
    return { query, header: { ...json, 'X-Twilio-Signature': signature, 'I-Twilio-Idempotency-Token': d.id }, body };
  },

  async shopify(d) {
    await import('@shopify/shopify-api/adapters/node');
    const { shopifyApi, ApiVersion } = await import('@shopify/shopify-api');
    const body = JSON.stringify({ id: d.id, city: 'Berlin' });
    const header = {
      ...json, 'X-Shopify-Topic': 'orders/create', 'X-Shopify-Event-Id': d.id, 'X-Shopify-Webhook-Id': `w-${d.id}`,
      'X-Shopify-Shop-Domain': 'tea.myshopify.com', 'X-Shopify-API-Version': '2026-07',
      'X-Shopify-Hmac-Sha256': hmac(d.secret, body, 'base64'),
    };
    const api = shopifyApi({
      apiKey: 'k', apiSecretKey: d.secret, hostName: 'hooks.example', isEmbeddedApp: false,
      apiVersion: Object.values(ApiVersion).at(-1), logger: { log: () => {} },
    });
    const result = await api.webhooks.validate({ rawBody: body, rawRequest: { method: 'POST', url: '/', headers: header } });
    agree(result.valid);
    return { header, body };
  },

  async razorpay(d) {
    const { default: Razorpay } = await import('razorpay');
    const body = JSON.stringify({ event: 'payment.captured', id: d.id, city: 'Berlin' });
    const signature = hmac(d.secret, body);
    agree(Razorpay.validateWebhookSignature(body, signature, d.secret));
    return { header: { ...json, 'X-Razorpay-Signature': signature, 'X-Razorpay-Event-Id': d.id }, body };
  },

  async square(d) {
    const { WebhooksHelper } = await import('square');
    const created = new Date(d.at * 1000).toISOString();
    const body = JSON.stringify({ type: 'payment.created', event_id: d.id, created_at: created, city: 'Berlin' });
    const signature = hmac(d.secret, d.url + body, 'base64');
    agree(await WebhooksHelper.verifySignature({
      requestBody: body, signatureHeader: signature, signatureKey: d.secret, notificationUrl: d.url,
    }));
    return { header: { ...json, 'x-square-hmacsha256-signature': signature }, body };
  },

  async adyen(d) {
    const { default: adyen } = await import('@adyen/api-library');
    const item = {
      pspReference: d.id, originalReference: '', merchantAccountCode: 'TeaShop', merchantReference: 'Berlin:\\17',
      amount: { value: 1700, currency: 'EUR' }, eventCode: 'AUTHORISATION', success: 'true',
      eventDate: new Date(d.at * 1000).toISOString(), additionalData: {},
    };
    item.additionalData.hmacSignature = new adyen.hmacValidator().calculateHmac(item, d.secret);
    const items = [{ NotificationRequestItem: item }];
    return { header: json, body: JSON.stringify({ live: 'false', notificationItems: items }) };
  },

  async 'adyen-platform'(d) {
    const { default: adyen } = await import('@adyen/api-library');
    const body = JSON.stringify({ type: 'balancePlatform.transfer.created', data: { id: d.id, city: 'Berlin' } });
    const signature = new adyen.hmacValidator().calculateHmacSignature(body, d.secret);
    return { header: { ...json, HmacSignature: signature, Protocol: 'HmacSHA256' }, body };
  },

  'cloudevents-binary': (d) => cloudEvent(d, 'binary'),
  'cloudevents-structured': (d) => cloudEvent(d, 'structured'),

  'http-message-signatures-expired': (d) => httpbis(d, 'ed25519', -1),

  async contentful(d) {
    const { signRequest } = await import('@contentful/node-apps-toolkit');
    const body = JSON.stringify({ sys: { id: d.id }, fields: { city: 'Berlin' } });
    const header = { ...json, 'X-Contentful-Topic': 'ContentManagement.Entry.publish' };
    const request = { method: 'POST', path: new URL(d.url).pathname, headers: header, body };
    return { header: { ...header, ...signRequest(d.secret, request, d.at * 1000) }, body };
  },

  async line(d) {
    const { validateSignature } = await import('@line/bot-sdk');
    const event = { type: 'message', webhookEventId: d.id, timestamp: d.at * 1000, message: { text: 'Berlin' } };
    const body = JSON.stringify({ destination: 'U17', events: [event] });
    const signature = hmac(d.secret, body, 'base64');
    agree(validateSignature(body, d.secret, signature));
    return { header: { ...json, 'X-Line-Signature': signature }, body };
  },

  async paddle(d) {
    const { Paddle } = await import('@paddle/paddle-node-sdk');
    const body = JSON.stringify({ event_id: d.id, event_type: 'transaction.paid', data: { city: 'Berlin' } });
    const signature = `ts=${d.at};h1=${hmac(d.secret, `${d.at}:${body}`)}`;
    if (!d.stale) agree(await new Paddle('k').webhooks.isSignatureValid(body, d.secret, signature));
    return { header: { ...json, 'Paddle-Signature': signature }, body };
  },

  async workos(d) {
    const { WorkOS } = await import('@workos-inc/node');
    const payload = { id: d.id, event: 'user.created', data: { city: 'Berlin' } };
    const signature = await new WorkOS('sk_1').webhooks.computeSignature(d.at * 1000, payload, d.secret);
    const header = { ...json, 'WorkOS-Signature': `t=${d.at * 1000}, v1=${signature}` };
    return { header, body: JSON.stringify(payload) };
  },

  async linear(d) {
    const { LinearWebhookClient } = await import('@linear/sdk/webhooks');
    const data = { id: 'i-17', city: 'Berlin' };
    const body = JSON.stringify({ type: 'Issue', action: 'create', data, webhookTimestamp: d.at * 1000, webhookId: 'w-1' });
    const signature = hmac(d.secret, body);
    inTime(d, () => agree(new LinearWebhookClient(d.secret).verify(Buffer.from(body), signature)));
    return { header: { ...json, 'Linear-Signature': signature, 'Linear-Delivery': d.id, 'Linear-Event': 'Issue' }, body };
  },

  async hubspot(d) {
    const { default: hubspot } = await import('@hubspot/api-client');
    const event = { eventId: d.id, subscriptionId: 17, occurredAt: 1795400000000, subscriptionType: 'contact.creation' };
    const body = JSON.stringify([{ ...event, city: 'Berlin' }]);
    const signature = hubspot.Signature.getSignature('POST', 'v3',
      { clientSecret: d.secret, requestBody: body, url: d.url, timestamp: d.at * 1000 });
    const header = { ...json, 'X-HubSpot-Signature-v3': signature, 'X-HubSpot-Request-Timestamp': `${d.at * 1000}` };
    return { header, body };
  },

  async sendgrid(d) {
    const { EventWebhook } = await import('@sendgrid/eventwebhook');
    const body = JSON.stringify([{ sg_event_id: d.id, event: 'delivered', email: 'a@example.com', city: 'Berlin' }]);
    const key = crypto.createPrivateKey(d.secret);
    const signature = crypto.sign('sha256', Buffer.from(d.at + body), key).toString('base64');
    const webhook = new EventWebhook();
    const der = crypto.createPublicKey(key).export({ type: 'spki', format: 'der' }).toString('base64');
    agree(webhook.verifySignature(webhook.convertPublicKeyToECDSA(der), body, signature, `${d.at}`));
    const header = { 'X-Twilio-Email-Event-Webhook-Signature': signature };
    return { header: { ...json, ...header, 'X-Twilio-Email-Event-Webhook-Timestamp': `${d.at}` }, body };
  },

  async discord(d) {
    const { verifyKey } = await import('discord-interactions');
    const event = { type: 'APPLICATION_AUTHORIZED', data: { id: d.id, city: 'Berlin' } };
    const body = JSON.stringify({ version: 1, application_id: '17', type: 1, event });
    const key = crypto.createPrivateKey(d.secret);
    const signature = crypto.sign(null, Buffer.from(`${d.at}${body}`), key).toString('hex');
    const raw = Buffer.from(crypto.createPublicKey(key).export({ format: 'jwk' }).x, 'base64url');
    agree(await verifyKey(body, signature, `${d.at}`, raw.toString('hex')));
    return { header: { ...json, 'X-Signature-Ed25519': signature, 'X-Signature-Timestamp': `${d.at}` }, body };
  },
};

for (const alg of ['ed25519', 'ecdsa-p256-sha256', 'rsa-pss-sha512', 'hmac-sha256']) {
  senders[`http-message-signatures-${alg}`] = (d) => httpbis(d, alg);
}

// httpbis signs by RFC 9421, with an end this many seconds after the signed time.
async function httpbis(d, alg, ends) {
  const { createSigner, httpbis: { signMessage } } = await import('http-message-signatures');
  const body = JSON.stringify({ type: 'order.created', id: d.id, city: 'Berlin' });
  const digest = crypto.createHash('sha256').update(body).digest('base64');
  const header = { ...json, 'Content-Digest': `sha-256=:${digest}:`, 'Idempotency-Key': `"${d.id}"` };
  const params = ['created', 'keyid', 'alg'];
  const paramValues = { created: new Date(d.at * 1000) };
  if (ends) {
    params.push('expires');
    paramValues.expires = new Date((d.at + ends) * 1000);
  }
  const signed = await signMessage({
    key: createSigner(d.secret, alg, 'k1'), name: 'sig1', params, paramValues,
    fields: ['@method', '@target-uri', 'content-type', 'content-digest', 'idempotency-key'],
  }, { method: 'POST', url: d.url, headers: header });
  return { header: signed.headers, body };
}

// documented are the components that senders sign by their own documents, with their fields, the
// parameters of their signatures, what else is in the body, and their algorithm.
const mastodon = { alg: 'rsa-v1_5-sha256', media: 'application/activity+json', params: ['created', 'keyid'],
  keyid: 'https://social.example/users/mallow#main-key', body: { actor: 'https://social.example/users/mallow' } };
const documented = {
  ucp: () => ({ fields: ['@method', '@authority', '@path', 'content-digest', 'content-type', 'ucp-agent'],
    header: { 'UCP-Agent': 'profile="https://shop.example/.well-known/ucp"' }, params: ['keyid'] }),
  pawapay: (d) => ({ fields: ['@method', '@authority', '@path', 'signature-date', 'content-digest', 'content-type'],
    header: { 'Signature-Date': new Date(d.at * 1000).toISOString() }, name: 'sig-pp', hash: 'sha-512',
    body: { depositId: d.id, status: 'COMPLETED' }, sign: async (data) => crypto.sign('sha256', data, d.secret) }),
  accessowl: (d) => ({ fields: ['@target-uri', 'content-digest', 'content-type', 'idempotency-key'], alg: 'ed25519',
    header: { 'Idempotency-Key': d.id }, name: 'sig', hash: 'sha-512', params: ['created', 'keyid'] }),
  xsolla: (d) => ({ fields: ['@method', '@target-uri', 'content-digest', 'request-id'], header: { 'Request-Id': d.id },
    alg: 'hmac-sha256', ends: 600 }),
  openpayments: (d) => ({ alg: 'ed25519', header: { Authorization: 'GNAP 17' },
    fields: ['content-type', 'content-digest', 'content-length', 'authorization', '@method', '@target-uri'] }),
  ocm: () => ({ fields: ['@method', '@target-uri', 'content-digest', 'content-length', 'content-type', 'date'],
    alg: 'ed25519', header: { Date: new Date(0).toUTCString() }, params: ['created', 'keyid', 'alg', 'tag'] }),
  mastodon: () => ({ ...mastodon, fields: ['@method', '@target-uri', 'content-digest'] }),
  fedify: (d) => ({ ...mastodon, fields: ['@method', '@target-uri', '@authority', 'host', 'date', 'content-digest'],
    header: { Host: new URL(d.url).host, Date: new Date(d.at * 1000).toUTCString() }, params: undefined }),
};

for (const name of Object.keys(documented)) {
  senders[`documented-${name}`] = async (d) => {
    const { createSigner, httpbis: { signMessage } } = await import('http-message-signatures');
    const how = documented[name](d);
    const { alg = 'ecdsa-p256-sha256', hash = 'sha-256', keyid = 'k1', media = 'application/json' } = how;
    const body = JSON.stringify({ type: 'order.created', id: d.id, city: 'Berlin', ...how.body });
    const digest = crypto.createHash(hash.replace('-', '')).update(body).digest('base64');
    const params = how.params ?? ['created', 'keyid', 'alg'];
    const signed = await signMessage({
      key: how.sign ? { id: keyid, alg, sign: how.sign } : createSigner(d.secret, alg, keyid), name: how.name ?? 'sig1',
      params: how.ends ? [...params, 'expires'] : params, fields: how.fields,
      paramValues: { created: new Date(d.at * 1000), tag: 'ocm', expires: new Date((d.at + (how.ends ?? 0)) * 1000) },
    }, { method: 'POST', url: d.url, headers: { 'Content-Type': media, 'Content-Digest': `${hash}=:${digest}:`,
      'Content-Length': `${body.length}`, ...how.header } });
    return { header: signed.headers, body };
  };
}

async function slack(d, type, body) {
  const { verifySlackRequest } = await import('@slack/bolt');
  const signature = 'v0=' + hmac(d.secret, `v0:${d.at}:${body}`);
  verifySlackRequest({
    signingSecret: d.secret, body, nowMilliseconds: d.at * 1000,
    headers: { 'x-slack-signature': signature, 'x-slack-request-timestamp': d.at },
  });
  const header = { 'X-Slack-Signature': signature, 'X-Slack-Request-Timestamp': `${d.at}` };
  return { header: { 'Content-Type': type, ...header }, body };
}

// twilioForm signs a form for the URL. A list is a field that is repeated.
async function twilioForm(d, { url = d.url, query = '', body }) {
  const { default: twilio } = await import('twilio');
  const fields = { MessageSid: d.id, Body: body, From: '+15550100' };
  const signature = twilio.getExpectedTwilioSignature(d.secret, query ? `${url}?${query}` : url, fields);
  const pairs = Object.entries(fields).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const header = { 'Content-Type': form, 'X-Twilio-Signature': signature, 'I-Twilio-Idempotency-Token': d.id };
  return { query, header, body: new URLSearchParams(pairs).toString() };
}

// standard signs by the Standard Webhooks specification, with the fields of a prefix.
function standard(d, Webhook, prefix) {
  const body = JSON.stringify({ type: 'order.created', data: { id: d.id, city: 'Berlin' } });
  const signature = new Webhook(d.secret).sign(d.id, new Date(d.at * 1000), body);
  return { header: { ...json, [`${prefix}-id`]: d.id, [`${prefix}-timestamp`]: `${d.at}`,
    [`${prefix}-signature`]: signature }, body };
}

async function github(d, type, encode) {
  const { sign } = await import('@octokit/webhooks-methods');
  const body = encode(JSON.stringify({ ref: 'refs/heads/main', after: d.id, city: 'Berlin' }));
  const header = { 'Content-Type': type, 'X-GitHub-Event': 'push', 'X-GitHub-Delivery': d.id };
  return { header: { ...header, 'X-Hub-Signature-256': await sign(d.secret, body) }, body };
}

async function cloudEvent(d, mode) {
  const { CloudEvent, HTTP } = await import('cloudevents');
  const event = new CloudEvent({
    id: d.id, source: '/tea', type: 'com.example.order', time: new Date(d.at * 1000).toISOString(),
    data: { city: 'Berlin' },
  });
  const message = HTTP[mode](event);
  return { header: { ...message.headers, Authorization: `Bearer ${d.secret}` }, body: message.body };
}

let input = '';
for await (const chunk of process.stdin) input += chunk;
for (const d of JSON.parse(input)) {
  console.log(JSON.stringify(await senders[process.argv[2]](d)));
}
