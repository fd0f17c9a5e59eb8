/** Routes of an installation's channels, deliveries and events. */
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { pageDeliveries } from '../../db/channels/delivery-history.ts';
import { pageEvents } from '../../db/installations/event-history.ts';
import { mapPage } from '../../db/postgres/cursors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { answerCreated } from '../../service/http/created.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { FILTERED_PAGES, idParams, noContent, page } from '../../service/http/schemas.ts';
import { requireInstallation } from '../installations/installation-lookup.ts';
import type { Services } from '../services.ts';
import { connectChannel, disconnectChannel, replaceChannelAddress } from './channel-connections.ts';
import {
  channelParams,
  deliveryParams,
  deliveryQuery,
  eventParams,
  eventQuery,
  newChannel,
  replayBody,
} from './channel-input.ts';
import {
  channelResource,
  deliveryDetail,
  deliveryResource,
  eventResource,
  replayed,
  showChannel,
  showDelivery,
  showDeliveryDetail,
} from './channel-resource.ts';
import {
  giveUp,
  replayDelivery,
  replayInstallationEvent,
  replayManyDeliveries,
  requireDelivery,
  tryNow,
} from './replays.ts';

const shapes = {
  connect: {
    summary: 'Connects a channel',
    details:
      'Returns the address for the vendor. Only plugins that register channel.receive have channels. Not idempotent: a repeated request connects another channel.',
    problems: ['no_channel', 'too_many'],
    params: idParams,
    body: newChannel,
    response: { 201: channelResource },
  },
  disconnect: {
    summary: 'Disconnects a channel',
    details: 'Removes its sessions. Requests to its address then get status 410.',
    params: channelParams,
    response: { 204: noContent },
  },
  replace: {
    summary: 'Replaces a channel’s address',
    details:
      'Requests to the old address then get status 410. Not idempotent: a repeated request replaces the new address, too.',
    params: channelParams,
    response: { 200: channelResource },
  },
  deliveries: {
    summary: 'Deliveries of the channels, inbound and outbound, newest first',
    details: FILTERED_PAGES,
    params: idParams,
    querystring: deliveryQuery,
    response: { 200: page(deliveryResource) },
  },
  delivery: {
    summary: 'One delivery with its payload',
    params: deliveryParams,
    response: { 200: deliveryDetail },
  },
  replay: {
    summary: 'Replays a finished delivery',
    details:
      'Queues it behind the pending deliveries, with no attempts counted. Not idempotent: a repeated request queues it again if it is finished by then.',
    problems: ['no_channel', 'delivery_state'],
    params: deliveryParams,
    response: { 200: deliveryDetail },
  },
  tryNow: {
    summary: 'Attempts a waiting delivery at once',
    details:
      'Refused if the delivery waits for an earlier one or for its installation. Not idempotent: a repeated request attempts it once more if the attempt has failed by then.',
    problems: ['delivery_state'],
    params: deliveryParams,
    response: { 200: deliveryDetail },
  },
  giveUp: {
    summary: 'Makes a pending delivery a dead letter',
    details: 'The channel continues with the next delivery. To deliver this one after all, replay it.',
    problems: ['delivery_state'],
    params: deliveryParams,
    response: { 200: deliveryDetail },
  },
  replayManyDeliveries: {
    summary: 'Replays many deliveries',
    details:
      'Queues them behind the pending deliveries, oldest first, at most 10,000 at once. Skips those of disconnected channels. Not idempotent: a repeated request queues those again that are finished by then.',
    params: idParams,
    body: replayBody,
    response: { 200: replayed },
  },
  events: {
    summary: 'The events sent to the plugin, newest first',
    details: FILTERED_PAGES,
    params: idParams,
    querystring: eventQuery,
    response: { 200: page(eventResource) },
  },
  replayEvent: {
    summary: 'Replays a finished event',
    details: 'Not idempotent: a repeated request sends it again if it is finished by then.',
    problems: ['delivery_state'],
    params: eventParams,
    response: { 200: eventResource },
  },
} satisfies Record<string, FastifySchema>;

export function channelRoutes(services: Services): FastifyPluginAsyncZod {
  const { pool, webhookUrl } = services;
  return async (app) => {
    groupRoutes(app, 'Channels');
    app.post('/installations/:id/channels', { schema: shapes.connect }, async (request, reply) => {
      const channel = await connectChannel(services, requireCaller(request), request.params.id, request.body);
      return answerCreated(request, reply, channel.id).send(showChannel(channel, webhookUrl));
    });

    app.delete('/installations/:id/channels/:channelId', { schema: shapes.disconnect }, async (request, reply) => {
      await disconnectChannel(services, requireCaller(request), request.params.id, request.params.channelId);
      return reply.code(204).send();
    });

    const replacePath = '/installations/:id/channels/:channelId/replace-address';
    app.post(replacePath, { schema: shapes.replace }, async (request) => {
      const { id, channelId } = request.params;
      return showChannel(await replaceChannelAddress(services, requireCaller(request), id, channelId), webhookUrl);
    });

    app.get('/installations/:id/deliveries', { schema: shapes.deliveries }, async (request) => {
      const { id } = await requireInstallation(services, requireCaller(request), request.params.id, 'read');
      return mapPage(await pageDeliveries(pool, { installationId: id, ...request.query }), showDelivery);
    });

    app.get('/installations/:id/deliveries/:deliveryId', { schema: shapes.delivery }, async (request) => {
      const { id } = await requireInstallation(services, requireCaller(request), request.params.id, 'read');
      return showDeliveryDetail(await requireDelivery(services, id, request.params.deliveryId));
    });

    for (const [name, shape, change] of [
      ['replay', shapes.replay, replayDelivery],
      ['try-now', shapes.tryNow, tryNow],
      ['give-up', shapes.giveUp, giveUp],
    ] as const) {
      app.post(`/installations/:id/deliveries/:deliveryId/${name}`, { schema: shape }, async (request) => {
        const { id: installationId, deliveryId } = request.params;
        return showDeliveryDetail(await change(services, requireCaller(request), { installationId, deliveryId }));
      });
    }

    app.post('/installations/:id/deliveries/replay', { schema: shapes.replayManyDeliveries }, async (request) => ({
      replayed: await replayManyDeliveries(services, requireCaller(request), request.params.id, request.body),
    }));

    app.get('/installations/:id/events', { schema: shapes.events }, async (request) => {
      const { id } = await requireInstallation(services, requireCaller(request), request.params.id, 'read');
      return pageEvents(pool, { installationId: id, ...request.query });
    });

    app.post('/installations/:id/events/:eventId/replay', { schema: shapes.replayEvent }, async (request) => {
      const { id, eventId } = request.params;
      return replayInstallationEvent(services, requireCaller(request), id, eventId);
    });
  };
}
