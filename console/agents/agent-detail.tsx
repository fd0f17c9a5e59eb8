/** One agent in full. */
import { Skeleton, Stack, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { bodyOf, rest } from '../rest/client.ts';
import { Facts } from '../shell/facts.tsx';
import { Moment } from '../shell/moment.tsx';
import { PageFailure } from '../shell/page-failure.tsx';
import { Payload } from '../shell/payload.tsx';
import { visibleText } from '../style/visible-text.ts';

export function AgentDetail({ id }: { readonly id: string }) {
  const found = useQuery({
    queryKey: ['agents', id],
    queryFn: () => bodyOf(rest.GET('/agents/{id}', { params: { path: { id } } })),
  });
  if (found.error) return <PageFailure error={found.error} />;
  if (!found.data) return <Skeleton height={160} aria-label="Loading" />;
  const { name, instructions, model, slug, createdAt, updatedAt } = found.data;
  return (
    <Stack>
      <Facts
        rows={[
          ['Name', visibleText(name)],
          ['Made by', slug ?? 'a plugin that is gone'],
          ['Model', model === null ? 'whichever' : visibleText(model)],
          ['Made', <Moment key="made" at={createdAt} />],
          ['Changed', <Moment key="changed" at={updatedAt} />],
        ]}
      />
      <Title order={3} fz="sm">
        Instructions
      </Title>
      <Payload>{visibleText(instructions) || 'none'}</Payload>
    </Stack>
  );
}
