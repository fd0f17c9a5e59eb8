/** An update that asks for more: what would be added and removed, in words, and the consent to exactly that version. */
import { Alert, Button, Group, List, Stack, Text, Title } from '@mantine/core';
import { IconShieldQuestion } from '@tabler/icons-react';
import { ReachList } from '../catalog/reach-list.tsx';
import { useAction } from '../rest/action.ts';
import { rest } from '../rest/client.ts';
import type { Installation } from '../rest/installations.ts';

export function UpdateConsent({ installation }: { readonly installation: Installation }) {
  const { id, pendingUpdate, reach, currentSemVer } = installation;
  const accept = useAction(
    (versionId: string) =>
      rest.POST('/installations/{id}/accept-update', { params: { path: { id } }, body: { versionId } }),
    'Accepted: the new version starts',
  );
  if (!pendingUpdate) return null;
  const { versionId, semVer, added, removed } = pendingUpdate;
  const name = semVer ?? 'The draft';
  const sentences = (capabilities: readonly string[]) =>
    reach.filter(({ capability }) => capabilities.includes(capability));
  return (
    <Alert color="yellow" title={`${name} asks for more access`} icon={<IconShieldQuestion aria-hidden />}>
      <Stack gap="sm">
        <Text size="sm">
          {currentSemVer ?? 'What you have'} keeps running until you decide. Nothing else waits for it.
        </Text>
        <Title order={2} fz="sm">
          It would also be able to
        </Title>
        <ReachList reach={sentences(added)} none="Nothing more." />
        {removed.length > 0 ? (
          <>
            <Title order={2} fz="sm">
              It would give up
            </Title>
            <List size="sm">
              {sentences(removed).map(({ capability, sentence }) => (
                <List.Item key={capability}>
                  <del>{sentence}</del>
                </List.Item>
              ))}
            </List>
          </>
        ) : null}
        <Group>
          <Button loading={accept.isPending} onClick={() => accept.mutate(versionId)}>
            Allow this and update to {semVer ?? 'the draft'}
          </Button>
        </Group>
      </Stack>
    </Alert>
  );
}
