// Verifies deliveries with Node libraries: node receivers.mjs RECEIVER < deliveries. Standard input
// is a JSON array of signed deliveries, as in receivers_test.go; standard output is true or false
// for each. An error of the library is false.
import crypto from 'node:crypto';

const receivers = {
  async stripe(d) {
    const { default: Stripe } = await import('stripe');
    return !!new Stripe('sk_test_1').webhooks.constructEvent(d.body, d.header['stripe-signature'], d.secret);
  },

  async svix(d) {
    const { Webhook } = await import('svix');
    return !!new Webhook(d.secret).verify(d.body, d.header);
  },

  async standardwebhooks(d) {
    const { Webhook } = await import('standardwebhooks');
    return !!new Webhook(d.secret).verify(d.body, d.header);
  },

  async openai(d) {
    const { default: OpenAI } = await import('openai');
    return !!(await new OpenAI({ apiKey: 'sk-1' }).webhooks.unwrap(d.body, d.header, d.secret));
  },

  async octokit(d) {
    const { verify } = await import('@octokit/webhooks-methods');
    return verify(d.secret, d.body, d.header['x-hub-signature-256']);
  },

  async slack(d) {
    const { verifySlackRequest } = await import('@slack/bolt');
    const at = Number(d.header['x-slack-request-timestamp']);
    verifySlackRequest({ signingSecret: d.secret, body: d.body,
      headers: { 'x-slack-signature': d.header['x-slack-signature'], 'x-slack-request-timestamp': at } });
    return true;
  },

  async twilio(d) {
    const { default: twilio } = await import('twilio');
    const fields = Object.fromEntries(new URLSearchParams(d.body));
    return twilio.validateRequest(d.secret, d.header['x-twilio-signature'], d.url, fields);
  },

  async 'twilio-json'(d) {
    const { default: twilio } = await import('twilio');
    return twilio.validateRequestWithBody(d.secret, d.header['x-twilio-signature'], d.url, d.body);
  },

  async shopify(d) {
    await import('@shopify/shopify-api/adapters/node');
    const { shopifyApi, ApiVersion } = await import('@shopify/shopify-api');
    const api = shopifyApi({
      apiKey: 'k', apiSecretKey: d.secret, hostName: 'hooks.example', isEmbeddedApp: false,
      apiVersion: Object.values(ApiVersion).at(-1), logger: { log: () => {} },
    });
    const request = { method: 'POST', url: '/', headers: d.header };
    return (await api.webhooks.validate({ rawBody: d.body, rawRequest: request })).valid;
  },

  async razorpay(d) {
    const { default: Razorpay } = await import('razorpay');
    return Razorpay.validateWebhookSignature(d.body, d.header['x-razorpay-signature'], d.secret);
  },

  async square(d) {
    const { WebhooksHelper } = await import('square');
    return WebhooksHelper.verifySignature({ requestBody: d.body, notificationUrl: d.url, signatureKey: d.secret,
      signatureHeader: d.header['x-square-hmacsha256-signature'] });
  },

  async adyen(d) {
    const { default: adyen } = await import('@adyen/api-library');
    const [{ NotificationRequestItem: item }] = JSON.parse(d.body).notificationItems;
    return new adyen.hmacValidator().validateHMAC(item, d.secret);
  },

  async 'adyen-platform'(d) {
    const { default: adyen } = await import('@adyen/api-library');
    return new adyen.hmacValidator().validateHMACSignature(d.secret, d.header.hmacsignature, d.body);
  },

  async line(d) {
    const { validateSignature } = await import('@line/bot-sdk');
    return validateSignature(d.body, d.secret, d.header['x-line-signature']);
  },

  async paddle(d) {
    const { Paddle } = await import('@paddle/paddle-node-sdk');
    return new Paddle('k').webhooks.isSignatureValid(d.body, d.secret, d.header['paddle-signature']);
  },

  async workos(d) {
    const { WorkOS } = await import('@workos-inc/node');
    const payload = JSON.parse(d.body); // the library signs what it makes of it again
    return new WorkOS('sk_1').webhooks.verifyHeader({ payload, sigHeader: d.header['workos-signature'], secret: d.secret });
  },

  async linear(d) {
    const { LinearWebhookClient } = await import('@linear/sdk/webhooks');
    const { webhookTimestamp } = JSON.parse(d.body);
    return new LinearWebhookClient(d.secret).verify(Buffer.from(d.body), d.header['linear-signature'], webhookTimestamp);
  },

  async hubspot(d) {
    const { default: hubspot } = await import('@hubspot/api-client');
    return hubspot.Signature.isValid({
      method: 'POST', signatureVersion: 'v3', clientSecret: d.secret, requestBody: d.body, url: d.url,
      signature: d.header['x-hubspot-signature-v3'], timestamp: Number(d.header['x-hubspot-request-timestamp']),
    });
  },

  async sendgrid(d) {
    const { EventWebhook } = await import('@sendgrid/eventwebhook');
    const webhook = new EventWebhook();
    return webhook.verifySignature(webhook.convertPublicKeyToECDSA(d.secret), d.body,
      d.header['x-twilio-email-event-webhook-signature'], d.header['x-twilio-email-event-webhook-timestamp']);
  },

  async discord(d) {
    const { verifyKey } = await import('discord-interactions');
    return verifyKey(d.body, d.header['x-signature-ed25519'], d.header['x-signature-timestamp'], d.secret);
  },
};

for (const alg of ['ed25519', 'ecdsa-p256-sha256', 'rsa-pss-sha512', 'hmac-sha256']) {
  receivers[`http-message-signatures-${alg}`] = async (d) => {
    const { createVerifier, httpbis } = await import('http-message-signatures');
    const key = { id: 'k1', alg: [alg], verify: createVerifier(d.secret, alg) };
    const digest = crypto.createHash('sha256').update(d.body).digest('base64');
    if (d.header['content-digest'] !== `sha-256=:${digest}:`) return false; // the library leaves it to its caller
    return httpbis.verifyMessage({ keyLookup: async () => key, requiredFields: ['content-digest'] },
      { method: 'POST', url: d.url, headers: d.header });
  };
}

let input = '';
for await (const chunk of process.stdin) input += chunk;
for (const d of JSON.parse(input)) {
  let accepted;
  try {
    accepted = (await receivers[process.argv[2]](d)) === true;
  } catch (error) {
    accepted = false;
    console.error(`${error}`);
  }
  console.log(accepted);
}
