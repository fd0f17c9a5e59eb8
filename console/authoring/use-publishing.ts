/** The state of publishing a package or saving it as a draft. */
import { useInputState } from '@mantine/hooks';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useState } from 'react';
import { queryClient } from '../rest/query-client.ts';
import type { Dropped } from './package-files.ts';
import { publishVersion, saveDraft } from './publish-requests.ts';

interface PublishingOptions {
  readonly pluginId: string;
  /** Null until the user has chosen a package. */
  readonly dropped: Dropped | null;
  /** Hash of the draft that the user edited. Null: the plugin had none. Undefined: the package replaces any draft. */
  readonly madeFrom?: string | null | undefined;
  /** Called after each request with its error or null, and with what was sent, which may be older than `dropped`. */
  readonly onAnswer?: (refusal: Error | null, sent: Dropped | null) => void;
  /** Whether faults stay visible while the user edits. */
  readonly keepsFaults?: boolean;
}
interface DraftSave {
  readonly sent: Dropped | null;
  /** Whether it replaces a draft that was saved elsewhere. */
  readonly isForced?: boolean;
}
export type Publishing = ReturnType<typeof usePublishing>;

export function usePublishing({ pluginId, dropped, madeFrom, onAnswer, keepsFaults = false }: PublishingOptions) {
  const [semVer, setSemVer] = useInputState('');
  const [part, setPart] = useState(0);
  const publish = useMutation({
    mutationFn: (sent: Dropped | null) => publishVersion(pluginId, semVer.trim(), sent, setPart),
    onSettled: (_none, refusal, sent) => onAnswer?.(refusal, sent),
    onSuccess: () => queryClient.invalidateQueries(),
  });
  const [newest, setNewest] = useState(madeFrom);
  const draft = useMutation({
    mutationFn: ({ sent, isForced }: DraftSave) => saveDraft(pluginId, sent, isForced ? undefined : newest),
    onSettled: (saved, refusal, { sent }) => {
      if (saved && madeFrom !== undefined) setNewest(saved.sourceSha256);
      onAnswer?.(refusal, sent);
    },
    onSuccess: () => queryClient.invalidateQueries(),
  });
  const forget = useEffectEvent(() => {
    for (const request of [publish, draft])
      if (!request.isPending && !(keepsFaults && request.isError)) request.reset();
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new package clears the result of the previous one
  useEffect(() => forget(), [dropped]);
  return {
    dropped,
    semVer,
    setSemVer,
    part,
    newestDraft: newest,
    publish,
    draft,
    canPublish: dropped !== null && semVer.trim() !== '',
    canSave: dropped !== null && !('zip' in dropped),
  };
}
