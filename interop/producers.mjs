// Senders made with a library, for eyelet conform: node producers.mjs SENDER SECRET URL sends one
// new event to URL. None of these libraries retries.
import crypto from 'node:crypto';

const [, , name, secret, url] = process.argv;
const id = `msg_${crypto.randomUUID()}`;

const senders = {
  standardwebhooks: () => signed('standardwebhooks'),
  svix: () => signed('svix'),

  async cloudevents() {
    const { CloudEvent, HTTP } = await import('cloudevents');
    const event = new CloudEvent({ id, type: 'conform.checked', source: '/interop', data: { n: 1 } });
    const { headers, body } = HTTP.binary(event);
    return { headers, body };
  },
};

async function signed(library) {
  const { Webhook } = await import(library);
  const at = new Date();
  const body = JSON.stringify({ type: 'conform.checked', data: { id } });
  return { body, headers: {
    'content-type': 'application/json', 'webhook-id': id, 'webhook-timestamp': Math.floor(at / 1000),
    'webhook-signature': new Webhook(secret).sign(id, at, body) } };
}

const { headers, body } = await senders[name]();
await fetch(url, { method: 'POST', headers, body });
