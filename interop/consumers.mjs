// Receivers as the documentation of a library shows them, for eyelet conform:
// node consumers.mjs RECEIVER PORT SECRET FILE. Each event that is handled is a line of FILE.
import fs from 'node:fs';
import http from 'node:http';
import express from 'express';

const [, , name, port, secret, file] = process.argv;
const handled = (id) => fs.appendFileSync(file, `${id}\n`);

const receivers = {
  async octokit() {
    const { Webhooks, createNodeMiddleware } = await import('@octokit/webhooks');
    const webhooks = new Webhooks({ secret });
    webhooks.onAny(({ id }) => handled(id));
    return http.createServer(createNodeMiddleware(webhooks, { path: '/' }));
  },

  async stripe() {
    const { default: Stripe } = await import('stripe');
    const stripe = new Stripe('sk_test_1');
    return express().post('/', express.raw({ type: 'application/json' }), (req, res) => {
      let event;
      try {
        event = stripe.webhooks.constructEvent(req.body, req.headers['stripe-signature'], secret);
      } catch (err) {
        res.status(400).send(`Webhook Error: ${err.message}`);
        return;
      }
      handled(event.id);
      res.json({ received: true });
    });
  },

  standardwebhooks: () => withVerify('standardwebhooks'),
  svix: () => withVerify('svix'),
};

// withVerify is a receiver with a library for Standard Webhooks.
async function withVerify(library) {
  const { Webhook } = await import(library);
  return express().post('/', express.raw({ type: 'application/json' }), (req, res) => {
    try {
      new Webhook(secret).verify(req.body.toString(), req.headers);
    } catch (err) {
      res.status(400).json({ error: err.message });
      return;
    }
    handled(req.headers['webhook-id']);
    res.status(204).end();
  });
}

const server = await receivers[name]();
server.listen(Number(port), '127.0.0.1', () => console.log('ready'));
