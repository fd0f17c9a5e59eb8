/** Shows what the account keeps, by kind: how full each quota is, and where to make room. */
import { Progress, Skeleton, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Fragment } from 'react';
import type { components } from '../../sdk/rest/schema.d.ts';
import { readBody, rest } from '../rest/client.ts';
import { FOLLOW_MS } from '../rest/installations.ts';
import { useReadError } from '../rest/use-read-error.ts';
import { ErrorAlert } from '../shell/error-alert.tsx';
import { PageHeader } from '../shell/page-header.tsx';
import { PageLink } from '../shell/page-link.tsx';
import { Section } from '../shell/section.tsx';
import { formatBytes } from '../style/format-bytes.ts';

type StoredKind = components['schemas']['StoredKind'];
interface Place {
  readonly to: '/plugins' | '/playground' | '/services' | '/installations';
  readonly label: string;
}

const PLUGINS: Place = { to: '/plugins', label: 'My plugins' };
const INSTALLATIONS: Place = { to: '/installations', label: 'Installations' };
/** The pages on which room is made. */
const PLACES: Readonly<Record<StoredKind['kind'], readonly Place[]>> = {
  versions: [PLUGINS],
  drafts: [PLUGINS],
  blobs: [],
  transcripts: [
    { to: '/playground', label: 'Playground' },
    { to: '/services', label: 'Services' },
  ],
  deliveries: [INSTALLATIONS],
  media: [INSTALLATIONS],
  workspaces: [],
  storage: [INSTALLATIONS],
  logs: [],
  audit: [],
};
/** From this share on a quota is nearly full. */
const NEARLY_FULL = 0.9;

export function StoragePage() {
  const found = useQuery({
    queryKey: ['me', 'usage'],
    queryFn: () => readBody(rest.GET('/me/usage')),
    refetchInterval: FOLLOW_MS,
  });
  const error = useReadError(found);
  return (
    <Stack>
      <PageHeader title="Storage" subtitle="What your account keeps, and how much it may keep of each kind." />
      {error ? <ErrorAlert error={error} reset={() => void found.refetch()} /> : null}
      {found.isPending && error === null ? <Skeleton height={240} aria-label="Loading" /> : null}
      {found.data?.items.map((stored) => (
        <KindSection key={stored.kind} stored={stored} />
      ))}
    </Stack>
  );
}

function KindSection({ stored: { kind, usedBytes, limitBytes, holds, free } }: { readonly stored: StoredKind }) {
  const title = `${kind.charAt(0).toUpperCase()}${kind.slice(1)}`;
  const share = limitBytes === null ? 0 : Math.min(1, usedBytes / limitBytes);
  const sizes = `${formatBytes(usedBytes)}${limitBytes === null ? ', no limit' : ` of ${formatBytes(limitBytes)}`}`;
  const fullness = share === 1 ? 'full' : 'nearly full';
  return (
    <Section title={title}>
      <Text size="sm">{share >= NEARLY_FULL ? `${sizes}: ${fullness}` : sizes}</Text>
      <Progress
        // At least 1 %, so that the bar shows that something is stored.
        value={usedBytes === 0 ? 0 : Math.max(1, Math.round(share * 100))}
        color={share >= NEARLY_FULL ? 'red' : 'cyan'}
        size="lg"
        aria-label={`${title}: ${sizes}`}
      />
      <Text size="sm" c="dimmed">
        {holds}
      </Text>
      <Text size="sm">
        {free}
        {PLACES[kind].map(({ to, label }) => (
          <Fragment key={to}>
            {' '}
            <PageLink to={to} size="sm" underline="always">
              {label}
            </PageLink>
          </Fragment>
        ))}
      </Text>
    </Section>
  );
}
