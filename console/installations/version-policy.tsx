/** Selects the version policy: the newest version, a pinned one, or the owner's draft. */
import { Button, Group, NativeSelect, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { findPreviousVersion } from '../../sdk/contract/version-numbers.ts';
import { readBody, rest } from '../rest/client.ts';
import { type Installation, useEntry } from '../rest/installations.ts';
import { useMe } from '../rest/me.ts';
import { Problem } from '../rest/problem.ts';
import { useAction } from '../rest/use-action.ts';
import { ConfirmButton } from '../shell/confirm-button.tsx';
import { useReadOnly } from '../shell/read-only.ts';

type Policy = Installation['versionPolicy'];
const NOT_PINNED = 'To roll back, choose an earlier version. A version that requests more access needs your consent.';
const PINNED =
  'It stays on this version and gets no updates, until you choose “The newest version”. A version that requests more access needs your consent.';

export function VersionPolicy({ installation }: { readonly installation: Installation }) {
  const now = installation.versionPolicy === 'Pinned' ? `${installation.pinnedVersionId}` : installation.versionPolicy;
  const [wanted, setWanted] = useState(now);
  const options = useOptions(installation);
  // A version that was yanked meanwhile counts as not chosen.
  const chosen = options.some(({ value }) => value === wanted) ? wanted : now;
  const previous = usePrevious(installation);
  const target = (body: Change) => ({ params: { path: { id: installation.id } }, body });
  const save = useAction(
    (body: Change) => rest.PATCH('/installations/{id}', target(body)),
    'The version policy is saved',
  );
  const isReadOnly = useReadOnly();
  return (
    <Group align="flex-end">
      <NativeSelect
        label="Runs"
        description={installation.versionPolicy === 'Pinned' ? PINNED : NOT_PINNED}
        data={options}
        value={chosen}
        disabled={isReadOnly}
        onChange={(event) => setWanted(event.currentTarget.value)}
        style={{ flex: '1 1 16rem' }}
      />
      {isReadOnly ? null : (
        <Button
          variant="default"
          disabled={chosen === now}
          loading={save.isPending}
          onClick={() => save.mutate(changeTo(chosen))}
        >
          Save
        </Button>
      )}
      {previous && !isReadOnly ? (
        <ConfirmButton
          label={`Go back to ${previous.semVer}`}
          run={() => rest.PATCH('/installations/{id}', target(changeTo(previous.versionId)))}
          done={`It stays on ${previous.semVer}`}
          button={{ size: 'sm' }}
        >
          <Text>
            {previous.semVer} runs instead, and stays: no newer version runs, until you choose “The newest version”
            here.
          </Text>
        </ConfirmButton>
      ) : null}
    </Group>
  );
}

interface Change {
  readonly versionPolicy: Policy;
  readonly pinnedVersionId?: string;
}

function changeTo(chosen: string): Change {
  if (chosen === 'Latest' || chosen === 'Draft') return { versionPolicy: chosen };
  return { versionPolicy: 'Pinned', pinnedVersionId: chosen };
}

/** Returns the version before the running one by precedence, if there is one. Before a stable version, it is a stable one. */
function usePrevious({ slug, currentVersionId, currentSemVer }: Installation) {
  const offered = useEntry(slug, currentVersionId).data?.versions ?? [];
  if (currentSemVer === null) return null;
  return findPreviousVersion(
    offered.map((version) => ({ ...version, status: 'published' })),
    currentSemVer,
  );
}

function useOptions({ slug, pluginId, versionPolicy, currentVersionId, currentSemVer, pinnedVersionId }: Installation) {
  const entry = useEntry(slug, currentVersionId);
  const isOwn = useIsOwn(pluginId, entry.data?.author.name);
  const versions = (entry.data?.versions ?? []).map(({ versionId, semVer }) => ({ versionId, semVer }));
  const isListed = versions.some(({ versionId }) => versionId === currentVersionId);
  // The catalog does not list a yanked version, even if it is running.
  if (currentVersionId !== null && currentSemVer !== null && !isListed)
    versions.push({ versionId: currentVersionId, semVer: currentSemVer });
  const isPinListed = pinnedVersionId === null || versions.some(({ versionId }) => versionId === pinnedVersionId);
  if (!isPinListed) versions.push({ versionId: pinnedVersionId, semVer: 'the version that you pinned' });
  return [
    { value: 'Latest', label: 'The newest version' },
    ...versions.map(({ versionId, semVer }) => ({
      value: versionId,
      label: versionId === currentVersionId ? `Only ${semVer} (runs now)` : `Only ${semVer}`,
    })),
    ...(isOwn || versionPolicy === 'Draft' ? [{ value: 'Draft', label: 'My saved draft' }] : []),
  ];
}

/** Only an owner can read a plugin through the authoring endpoints. Asks only a user with the author's name. */
function useIsOwn(id: string, authorName: string | undefined): boolean {
  const me = useMe();
  const found = useQuery({
    queryKey: ['plugins', id, 'own'],
    queryFn: async () => {
      try {
        await readBody(rest.GET('/plugins/{id}', { params: { path: { id } } }));
        return true;
      } catch (error) {
        if (error instanceof Problem && (error.code === 'not_owner' || error.code === 'not_found')) return false;
        throw error;
      }
    },
    enabled: authorName !== undefined && authorName === me.data?.name,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return found.data ?? false;
}
